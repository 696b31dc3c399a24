"""Check of the address of each attempt, before its connection is opened.

A name of a backend is resolved while serving, and its answer may change. The filter sees the address that was
chosen, so it checks the very one that Envoy would connect to.
"""

from typing import Any

from modelplane.gateway.destinations import Destinations, Network
from modelplane.gateway.envoy.type_urls import ENVOY, HTTP_FILTERS
from modelplane.gateway.table import Listener

_FOLDER = "destinations/"
_FILTER = "envoy.filters.http.upstream_rbac"
_RBAC = f"{HTTP_FILTERS}rbac.v3.RBAC"

DENIED = "refused-destination"
"""Name of the policy, in the response code details of a refusal."""


def destinations_file(listener: str) -> str:
    """Return the file of a listener's policy."""
    return f"{_FOLDER}{listener}.json"


def below_router(listener: Listener) -> list[dict[str, Any]]:
    """Return the filter of each attempt; none if the listener checks no address.

    Its policy is a file of its own, so that a change holds for connections that are open already.
    """
    if listener.destinations is None:
        return []
    source = {"path_config_source": {"path": f"./{destinations_file(listener.name)}"}}
    return [
        {
            "name": _FILTER,
            "config_discovery": {
                "config_source": {"resource_api_version": "V3", **source},
                "type_urls": [_RBAC],
            },
        }
    ]


def policy(destinations: Destinations) -> dict[str, Any]:
    """Return the ``TypedExtensionConfig`` of the filter."""
    return {"name": _FILTER, "typed_config": {"@type": _RBAC, **_rules(destinations)}}


def _rules(destinations: Destinations) -> dict[str, Any]:
    if not destinations.refused:
        return {}
    allowed = [{"not_rule": _any_of(destinations.allowed)}] if destinations.allowed else []
    refused = {
        "permissions": [{"and_rules": {"rules": [_any_of(destinations.refused), *allowed]}}],
        "principals": [{"any": True}],
    }
    return {"rules": {"action": "DENY", "policies": {DENIED: refused}}}


def _any_of(networks: tuple[Network, ...]) -> dict[str, Any]:
    return {"or_rules": {"rules": [_within(network) for network in networks]}}


def _within(network: Network) -> dict[str, Any]:
    block = {"address_prefix": str(network.network_address), "prefix_len": network.prefixlen}
    type_ = f"{ENVOY}extensions.rbac.matchers.upstream_ip_port.v3.UpstreamIpPortMatcher"
    return {
        "matcher": {
            "name": "envoy.rbac.matchers.upstream_ip_port",
            "typed_config": {"@type": type_, "upstream_ip": block},
        }
    }
