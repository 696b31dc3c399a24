"""The fleet's gateway as other compositions read it: its backend, its destinations and its keys.

The gateway's controller configures Envoy from the ModelServices and ModelEndpoints themselves. Any other
backend reads Gateway API, so services and endpoints compose its objects.
"""

from dataclasses import dataclass, replace
from typing import Any

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import DEFAULT_NAME, Backend, InferenceGateway
from modelplane.api.meta import API_VERSION, SYSTEM_NAMESPACE, Object, kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.untyped import get_list
from modelplane.compose.composition import Blocked, Request, Requirement, Unknown
from modelplane.compose.facts import ReplicaRequest
from modelplane.gateway import tokens
from modelplane.gateway.destinations import Destinations, is_on_this_machine, parse_networks
from modelplane.gateway.route_table import Token
from modelplane.gateway.tokens import GatewayKeys

KEYS_KEY = "gateway-keys"

KEYS = Requirement(KEYS_KEY, "v1", "Secret", namespace=SYSTEM_NAMESPACE, name=tokens.SECRET, optional=True)


@dataclass(frozen=True, slots=True)
class ReplicaLink:
    """Requests from the fleet's gateway to a replica, as its cluster's gateway is to know them."""

    token: Token | None = None
    """The token that a request needs; None while requests need none."""
    is_of_one_machine: bool = False
    """True if one Envoy is both gateways: it requires the token by itself."""
    is_unknown: bool = False
    """True if the keys cannot be read, so the route stays as it is."""


KEY = "gateway"

OWNERS = "endpoint-owners"
"""Key of the requirement for ModelReplicas, which only the controllers give."""

REQUIREMENT = Requirement(KEY, API_VERSION, kind_name(InferenceGateway), name=DEFAULT_NAME)


def keys_of(request: Request[Any, Any]) -> GatewayKeys | Unknown:
    """Return the keys; none where no gateway has made any yet."""
    found = request.required.get(KEYS_KEY, ())
    if isinstance(found, Unknown):
        return found
    return tokens.read(found[0]) if found else GatewayKeys()


def link(request: ReplicaRequest, cluster: InferenceCluster, route: Object | None) -> ReplicaLink:
    """Return the link of a replica; ``route`` is its HTTPRoute as it is."""
    if is_on_this_machine(cluster.status.gateway.address if cluster.status.gateway else ""):
        return ReplicaLink(is_of_one_machine=True)
    keys = keys_of(request)
    rules = get_list(route, "spec", "rules") if route else ()
    requires_token = any("headers" in match for rule in rules for match in rule.get("matches", ()))
    # A route that needs a token stays without keys, and the gateway sends what it sent.
    if isinstance(keys, Unknown) or (not keys.keys and requires_token):
        return ReplicaLink(is_unknown=True)
    metadata = request.owner.metadata
    return ReplicaLink(tokens.find_required(keys, f"{metadata.namespace}/{metadata.name}"))


def proxy(found: tuple[Object, ...]) -> str:
    """Return the backend in the gateway's status; empty without a gateway, or until it is known."""
    return str(found[0].get("status", {}).get("backend", "")) if found else ""


def takes_tls(found: tuple[Object, ...]) -> bool:
    """Return True if clients of the gateway use https."""
    spec = found[0].get("spec", {}) if found else {}
    return (
        bool(spec.get("tls")) and spec.get("backend") == Backend.ENVOY and not reads_gateway_api(proxy(found))
    )


def replicas(namespace: str) -> Requirement:
    """Return the requirement of the ModelReplicas of a namespace, whose endpoints may lead to clusters.

    An endpoint comes after its replica, so only its own changes matter.
    """
    return Requirement(OWNERS, API_VERSION, kind_name(ModelReplica), namespace, triggers=False, optional=True)


def destinations(request: Request[Any, Any], *, is_local: bool) -> Destinations | Blocked:
    """Return where the gateway of a request may send requests."""
    found = destinations_of(request.found(KEY), is_local=is_local)
    owners = request.required.get(OWNERS)
    if isinstance(found, Blocked) or owners is None or isinstance(owners, Unknown):
        return found
    return replace(found, replicas=frozenset(owner["metadata"].get("uid", "") for owner in owners))


def destinations_of(found: tuple[Object, ...], *, is_local: bool) -> Destinations | Blocked:
    """Return where a gateway may send requests, by its own settings."""
    spec, status = (found[0].get(part, {}) for part in ("spec", "status")) if found else ({}, {})
    read = {}
    for field in ("allowedDestinations", "deniedDestinations"):
        try:
            read[field] = parse_networks(spec.get(field) or ())
        except ValueError as error:
            return Blocked(f'InferenceGateway "{DEFAULT_NAME}": spec.{field}: {error}: correct it')
    return Destinations(
        allowed=read["allowedDestinations"],
        denied=read["deniedDestinations"],
        gateway=str(status.get("address", "")),
        has_tls=takes_tls(found),
        is_local=is_local,
        refuses_internal=not is_local,
        clusters=tuple(get_list(status, "clusterGateways")),
    )


def unspoken(found: tuple[Object, ...]) -> str | None:
    """Return a message while a gateway has no backend in its status yet; None otherwise."""
    if not found or proxy(found):
        return None
    return f'InferenceGateway "{DEFAULT_NAME}" has no status.backend yet'


def reads_gateway_api(proxy_name: str) -> bool:
    """Return True if a backend reads its routes from Gateway API objects."""
    return proxy_name not in ("", Backend.ENVOY)
