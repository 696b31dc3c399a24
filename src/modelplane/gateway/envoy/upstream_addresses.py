"""Check of the address of each attempt, before its connection is opened.

A name of a backend is resolved while serving, and its answer may change. The filter sees the address that was
chosen, so it checks the very one that Envoy would connect to. Replicas may lead to more addresses than other
backends, and are known by their tokens.
"""

from typing import Any

from modelplane.gateway.destinations import Destinations, Network
from modelplane.gateway.envoy import token_filters
from modelplane.gateway.envoy.envoy_names import ENVOY, HTTP_FILTERS
from modelplane.gateway.route_table import Listener, Route
from modelplane.gateway.services import find_ip_version

_FILTER = "envoy.filters.http.upstream_rbac"
_NAMES = "modelplane.names"
_RESOLVED = "resolved"
_RBAC = f"{HTTP_FILTERS}rbac.v3.RBAC"

DENIED = "refused-destination"
"""Name of the policy for all backends, in the response code details of a refusal."""

DENIED_TO_OTHERS = "refused-destination-of-no-replica"
"""Name of the policy for all backends but replicas."""


def name_destinations_file(listener: str) -> str:
    """Return the file of a listener's policy."""
    return f"destinations/{listener}.json"


def build_below_router(listener: Listener) -> list[dict[str, Any]]:
    """Return the filter of each attempt; none if the listener checks no address.

    Its policy is a file of its own, so that a change holds for connections that are open already.
    """
    if listener.destinations is None:
        return []
    source = {"path_config_source": {"path": f"./{name_destinations_file(listener.name)}"}}
    return [
        {
            "name": _FILTER,
            "config_discovery": {
                "config_source": {"resource_api_version": "V3", **source},
                "type_urls": [_RBAC],
            },
        }
    ]


def build_route_metadata(route: Route) -> dict[str, Any]:
    """Return the metadata of an Envoy route with names that may resolve to what only replicas may lead to.

    The many routes to replicas and addresses alone are not compared with all networks.
    """
    hosts = (host for backend in route.backends if backend.tokens is None for host, _ in backend.hosts)
    return {} if all(map(find_ip_version, hosts)) else {_NAMES: {_RESOLVED: True}}


def build_policy(listener: Listener, destinations: Destinations) -> dict[str, Any]:
    """Return the ``TypedExtensionConfig`` of the filter."""
    anyone: dict[str, Any] = {"principals": [{"any": True}]}
    policies = {}
    if rules := _refused(destinations):
        policies[DENIED] = {"permissions": rules, **anyone}
    if rules := _refused_to_others(listener, destinations):
        policies[DENIED_TO_OTHERS] = {
            "permissions": rules,
            **anyone,
            "condition": token_filters.is_not_of_replica(),
        }
    rules_ = {"rules": {"action": "DENY", "policies": policies}} if policies else {}
    return {"name": _FILTER, "typed_config": {"@type": _RBAC, **rules_}}


def _refused(destinations: Destinations) -> list[dict[str, Any]]:
    """Return the rules for all backends."""
    rules = [_any_of(destinations.refused)] if destinations.refused else []
    if destinations.unicast:
        rules.append({"not_rule": _any_of(destinations.unicast)})
    return [_all_of(rule, *_not_allowed(destinations)) for rule in rules]


def _refused_to_others(listener: Listener, destinations: Destinations) -> list[dict[str, Any]]:
    """Return the rules for all backends but replicas; none while a replica has no token to be known by."""
    backends = (backend for route in listener.routes for backend in route.backends)
    if any(backend.tokens == () for backend in backends):
        return []
    gateways = [_within(network, port) for network, port in destinations.only_for_replicas]
    rules = [_all_of(_is_named(), {"or_rules": {"rules": gateways}})] if gateways else []
    if destinations.internal:
        rules.append(_all_of(_is_named(), _any_of(destinations.internal), *_not_allowed(destinations)))
    return rules


def _is_named() -> dict[str, Any]:
    """Return the permission that holds on routes with names (``build_route_part``)."""
    matcher = {"filter": _NAMES, "path": [{"key": _RESOLVED}], "value": {"bool_match": True}}
    return {"sourced_metadata": {"metadata_matcher": matcher, "metadata_source": "ROUTE"}}


def _not_allowed(destinations: Destinations) -> list[dict[str, Any]]:
    return [{"not_rule": _any_of(destinations.allowed)}] if destinations.allowed else []


def _all_of(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"and_rules": {"rules": list(rules)}}


def _any_of(networks: tuple[Network, ...]) -> dict[str, Any]:
    return {"or_rules": {"rules": [_within(network) for network in networks]}}


def _within(network: Network, port: int = 0) -> dict[str, Any]:
    block = {"address_prefix": str(network.network_address), "prefix_len": network.prefixlen}
    type_ = f"{ENVOY}extensions.rbac.matchers.upstream_ip_port.v3.UpstreamIpPortMatcher"
    ports = {"upstream_port_range": {"start": port, "end": port + 1}} if port else {}
    return {
        "matcher": {
            "name": "envoy.rbac.matchers.upstream_ip_port",
            "typed_config": {"@type": type_, "upstream_ip": block, **ports},
        }
    }
