"""A ModelEndpoint is one place that serves a model: a replica, or an external provider."""

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.names import backend_name
from modelplane.api.reasons import ModelEndpointCondition as Type
from modelplane.api.reasons import ModelEndpointReason as Reason
from modelplane.api.rejected import Rejected
from modelplane.compose import fleet_gateway
from modelplane.compose.composition import Blocked, Composition, Desired, Keep, Request, Requirement, keep_all
from modelplane.compose.conditions import false, true
from modelplane.compose.readiness import exists
from modelplane.gateway import gateway_api
from modelplane.gateway.services import RefusedDestination, target_of


def requirements(_endpoint: ModelEndpoint) -> tuple[Requirement, ...]:
    """Return the gateway: its backend decides which objects represent the endpoint."""
    return (fleet_gateway.REQUIREMENT,)


def compose(request: Request[ModelEndpoint]) -> Composition | Blocked:
    """Check the endpoint's URL, and compose the objects that the gateway reads."""
    endpoint = request.owner
    if unknown := request.unknown(fleet_gateway.KEY):
        return Blocked(f"cannot read the {fleet_gateway.KEY}: {unknown.cause}")
    destinations = fleet_gateway.destinations(request)
    if isinstance(destinations, Blocked):
        return destinations
    parsed = target_of(endpoint, destinations)
    gateways = request.found(fleet_gateway.KEY)
    proxy = fleet_gateway.proxy(gateways)
    objects: dict[str, gateway_api.Manifest] | Rejected = {}
    if isinstance(parsed, Rejected):
        objects = parsed
    elif fleet_gateway.reads_gateway_api(proxy):
        objects = gateway_api.backend(endpoint, parsed)
    if isinstance(objects, Rejected):
        message = f'cannot use url "{endpoint.spec.url}": {objects.message}'
        is_refused = isinstance(objects, RefusedDestination)
        reason = Reason.DESTINATION_REFUSED if is_refused else Reason.INVALID_URL
        return Composition(
            # What leads to a refused address must not stay, whoever wrote it.
            children=() if is_refused else keep_all(request.observed),
            conditions=(false(Type.ROUTING_READY, reason, message),),
            ready=False,
        )
    children: tuple[Desired | Keep, ...] = tuple(
        Desired(key, manifest, exists) for key, manifest in objects.items()
    )
    if not proxy:
        children = keep_all(request.observed)
    if waiting := fleet_gateway.unspoken(gateways):
        condition = false(Type.ROUTING_READY, Reason.WAITING_FOR_BACKEND, waiting)
        return Composition(children=children, conditions=(condition,), ready=False)
    missing = [key for key in objects if key not in request.observed]
    if missing:
        message = f"its {missing[0]} at the gateway is being created"
        condition = false(Type.ROUTING_READY, Reason.WAITING_FOR_BACKEND, message)
        return Composition(children=children, conditions=(condition,), ready=False)
    return Composition(
        children=children,
        status={"routing": {"backendName": backend_name(endpoint.metadata.name)}} if objects else {},
        conditions=(true(Type.ROUTING_READY, Reason.BACKEND_CONFIGURED, "services can route to it"),),
        ready=True,
    )
