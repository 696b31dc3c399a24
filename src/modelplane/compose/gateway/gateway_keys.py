"""Keys of the fleet's gateway, as compositions read them: which token a cluster requires for a replica."""

from dataclasses import dataclass
from typing import Any

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.api.schema.untyped import get_list
from modelplane.compose.composition import Request, Requirement, Unknown
from modelplane.compose.replica.replica_facts import ReplicaRequest
from modelplane.gateway import tokens
from modelplane.gateway.destinations import is_on_this_machine
from modelplane.gateway.route_table import Token
from modelplane.gateway.tokens import GatewayKeys

KEY = "gateway-keys"

REQUIREMENT = Requirement(KEY, "v1", "Secret", namespace=SYSTEM_NAMESPACE, name=tokens.SECRET, optional=True)


@dataclass(frozen=True, slots=True)
class ReplicaLink:
    """Requests from the fleet's gateway to a replica, as its cluster's gateway is to know them."""

    token: Token | None = None
    """The token that a request needs; None while requests need none."""
    is_of_one_machine: bool = False
    """True if one Envoy is both gateways: it requires the token by itself."""
    is_unknown: bool = False
    """True if the keys cannot be read, so the route stays as it is."""


def keys_of(request: Request[Any, Any]) -> GatewayKeys | Unknown:
    """Return the keys; none where no gateway has made any yet."""
    found = request.required.get(KEY, ())
    if isinstance(found, Unknown):
        return found
    return tokens.read(found[0]) if found else GatewayKeys()


def link(request: ReplicaRequest, cluster: InferenceCluster, route: Object | None) -> ReplicaLink:
    """Return the link of a replica; ``route`` is its HTTPRoute as it is."""
    address = cluster.status.gateway.address if cluster.status.gateway else ""
    if is_on_this_machine(address):
        return ReplicaLink(is_of_one_machine=True)
    keys = keys_of(request)
    if isinstance(keys, Unknown) or (not keys.keys and _requires_token(route)):
        return ReplicaLink(is_unknown=True)
    metadata = request.owner.metadata
    return ReplicaLink(tokens.find_required(keys, f"{metadata.namespace}/{metadata.name}"))


def _requires_token(route: Object | None) -> bool:
    """Return True if a route needs a token: without keys it stays, and the gateway sends what it sent."""
    rules = get_list(route, "spec", "rules") if route else ()
    return any("headers" in match for rule in rules for match in rule.get("matches", ()))
