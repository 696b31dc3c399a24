"""Hops of a request through gateways, and the end of one that runs in a circle.

Each gateway adds a mark to a header of its own, which is also sent to backends, because a backend may be
another region's gateway. A client that sends the header itself is only refused earlier.
"""

from typing import Any

from modelplane.gateway.envoy import replies

MOST_HOPS = 4
"""Maximum of gateways that forward a request: those of two regions and of a cluster, and one to spare."""

_HEADER = "modelplane-hops"
_MARK = "1"
_STATE = "modelplane.loop"
"""Filter state that the module sets on a request with too many marks."""


def build_mark() -> dict[str, Any]:
    """Return the header mutation that adds this gateway's mark, in front of those of the gateways before."""
    return {
        "append": {
            "header": {"key": _HEADER, "value": f"{_MARK}%REQ({_HEADER})%"},
            "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
        }
    }


def refuse_loops(*, by_module: bool) -> dict[str, Any]:
    """Return the Envoy route that refuses a request with too many marks; it comes before those of services.

    ``by_module`` says that the listener never runs without the module, which reads the header anyway: a route
    that searches for a header takes Envoy 3,000 instructions more than one that looks for a filter state.
    """
    header = {"name": _HEADER, "string_match": {"prefix": _MARK * MOST_HOPS}}
    state = {"key": _STATE, "string_match": {"exact": "1"}}
    matched = {"filter_state": [state]} if by_module else {"headers": [header]}
    return {"name": "loop", "match": {"prefix": "/", **matched}, **replies.build_loop(MOST_HOPS)}
