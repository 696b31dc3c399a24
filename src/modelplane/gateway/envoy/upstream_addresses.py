"""Check of the address of each attempt, before its connection is opened.

A name of a backend is resolved while serving, and its answer may change. The filters see the address that was
chosen, so they check the very one that Envoy would connect to. Replicas may lead to more addresses than other
backends, and are known by their tokens.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.gateway.destinations import Destinations, Network
from modelplane.gateway.envoy import tokens
from modelplane.gateway.envoy.type_urls import ENVOY, HTTP_FILTERS
from modelplane.gateway.table import Listener

_FOLDER = "destinations/"
_FILTER = "envoy.filters.http.upstream_rbac"
_OTHERS = "modelplane.destinations_but_of_replicas"
_RBAC = f"{HTTP_FILTERS}rbac.v3.RBAC"

DENIED = "refused-destination"
"""Name of the policy, in the response code details of a refusal."""


def below_router(listener: Listener) -> list[dict[str, Any]]:
    """Return the filters of each attempt; none if the listener checks no address.

    Each policy is a file of its own, so that a change holds for connections that are open already.
    """
    if listener.destinations is None:
        return []
    return [
        {
            "name": name,
            "config_discovery": {
                "config_source": {"resource_api_version": "V3", "path_config_source": {"path": f"./{path}"}},
                "type_urls": [_RBAC],
            },
        }
        for name, path in ((_FILTER, _file(listener)), (_OTHERS, _file_of_others(listener)))
    ]


def policies(listener: Listener) -> dict[str, dict[str, Any]]:
    """Return the ``TypedExtensionConfig`` of each filter, by its file."""
    if listener.destinations is None:
        return {}
    return {
        _file(listener): _policy(_FILTER, _refused(listener.destinations)),
        _file_of_others(listener): _policy(
            _OTHERS, _refused_to_others(listener, listener.destinations), tokens.is_not_of_replica()
        ),
    }


def _file(listener: Listener) -> str:
    return f"{_FOLDER}{listener.name}.json"


def _file_of_others(listener: Listener) -> str:
    return f"{_FOLDER}{listener.name}-but-replicas.json"


def _policy(
    name: str, rules: list[dict[str, Any]], condition: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the filter that refuses an attempt for which one of the rules holds, and the condition."""
    refused: dict[str, Any] = {"permissions": rules, "principals": [{"any": True}]}
    refused |= {"condition": condition} if condition else {}
    denied = {"rules": {"action": "DENY", "policies": {DENIED: refused}}} if rules else {}
    return {"name": name, "typed_config": {"@type": _RBAC, **denied}}


def _refused(destinations: Destinations) -> list[dict[str, Any]]:
    """Return the rules for all backends."""
    rules = [_any_of(destinations.refused)] if destinations.refused else []
    if destinations.unicast:
        rules.append({"not_rule": _any_of(destinations.unicast)})
    return [_all_of(each, *_not_allowed(destinations)) for each in rules]


def _refused_to_others(listener: Listener, destinations: Destinations) -> list[dict[str, Any]]:
    """Return the rules for all backends but replicas; none while a replica has no token to be known by."""
    backends = (each for route in listener.routes for each in route.backends)
    if any(each.tokens == () for each in backends):
        return []
    gateways = [_within(network, port) for network, port in destinations.only_for_replicas]
    rules: list[dict[str, Any]] = [{"or_rules": {"rules": gateways}}] if gateways else []
    if destinations.internal:
        rules.append(_all_of(_any_of(destinations.internal), *_not_allowed(destinations)))
    return rules


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
