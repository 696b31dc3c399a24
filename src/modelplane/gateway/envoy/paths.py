"""Paths that servers read differently.

A proxy in front of the gateway may decide by the path who may send a request. If the gateway or a backend
read the path differently, the request would reach another service than the one that was allowed.
"""

from typing import Any

from modelplane.gateway.envoy import replies

# A backslash is a slash to some servers; what follows a semicolon is no part of the segment to others.
_AMBIGUOUS = r".*(\\|%5[cC]|%2[eEfF]|/\.\.?(/|;|%3[bB]|$)).*"


def refusal() -> dict[str, Any]:
    """Return the Envoy route that refuses such a path; it comes before all others."""
    match = {"safe_regex": {"regex": _AMBIGUOUS}}
    return {"name": "ambiguous-path", "match": match, **replies.ambiguous_path()}
