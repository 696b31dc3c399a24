"""A ModelService is one URL for the endpoints that it selects.

The address is stable, so it stays if no endpoint is left: the gateway then answers 503 with the cause.
"""

from itertools import chain

from modelplane.api.decode import InvalidObject, decode_as
from modelplane.api.inference_gateway import DEFAULT_NAME as GATEWAY
from modelplane.api.inference_gateway import Backend
from modelplane.api.listing import listing
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.namespaces import reserved
from modelplane.api.reasons import ModelServiceCondition as Type
from modelplane.api.reasons import ModelServiceReason as Reason
from modelplane.compose import fleet_gateway
from modelplane.compose.composition import Blocked, Composition, Desired, Keep, Request, Requirement, keep_all
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.memo import per_version
from modelplane.compose.readiness import refusal
from modelplane.gateway.gateway_api import MOST_BACKENDS, left_out, route
from modelplane.gateway.services import MOST_ENDPOINTS, Selected, select, service_route, without_target
from modelplane.gateway.table import Route

ROUTE = "httproute"
"""Key of the HTTPRoute, for a gateway that reads Gateway API."""


def requirements(service: ModelService) -> tuple[Requirement, ...]:
    """Return the requirements of a service: the gateway, and the endpoints of its namespace."""
    return (
        fleet_gateway.REQUIREMENT,
        Requirement("endpoints", API_VERSION, kind_name(ModelEndpoint), namespace=service.metadata.namespace),
    )


def compose(request: Request[ModelService]) -> Composition | Blocked:
    """Publish a service's address and conditions; compose its route on the gateway."""
    service = request.owner
    for key in (fleet_gateway.KEY, "endpoints"):
        if unknown := request.unknown(key):
            return Blocked(f"cannot read the {key}: {unknown.cause}")
    destinations = fleet_gateway.destinations(request)
    if isinstance(destinations, Blocked):
        return destinations
    gateways = request.found(fleet_gateway.KEY)
    host = gateways[0].get("status", {}).get("address", "") if gateways else ""
    # A published address stays while the gateway is unavailable.
    address = (
        f"http://{host}/{service.metadata.namespace}/{service.metadata.name}"
        if host
        else service.status.address or ""
    )
    endpoints = tuple(chain.from_iterable(map(_readable, request.found("endpoints"))))
    matched = select(service, endpoints, destinations)
    unusable = without_target(service, endpoints, destinations)
    resolved = _resolved(len(matched), unusable)
    proxy = fleet_gateway.proxy(gateways)
    children: tuple[Desired | Keep, ...] = ()
    if fleet_gateway.reads_gateway_api(proxy) and matched:
        children = (Desired(ROUTE, route(service, matched), _accepted),)
    elif proxy != Backend.ENVOY:
        children = keep_all(request.observed)
    if host and (waiting := fleet_gateway.unspoken(gateways)):
        routing = false(Type.ROUTING_READY, Reason.WAITING_FOR_GATEWAY, waiting)
    else:
        routing = _routing(host, matched, fleet_gateway.reads_gateway_api(proxy), request.observed.get(ROUTE))
    return Composition(
        children=children,
        status={"address": address} if address else {},
        conditions=(resolved, routing),
        ready=resolved.holds and routing.holds,
        routes=_routes(service, matched, unusable) if request.proxy is Backend.ENVOY else (),
    )


def _routes(
    service: ModelService, matched: tuple[Selected, ...], unusable: tuple[str, ...]
) -> tuple[Route, ...]:
    """Return the route of a service on Envoy, which needs no status of the InferenceGateway to serve it.

    A service in a reserved namespace keeps the route to an address that it has, and gets no new one.
    """
    if reserved(service.metadata.namespace) and not service.status.address:
        return ()
    return (service_route(service, matched, unusable),)


def _accepted(child: Object) -> bool:
    """Return True if a gateway has accepted a route and rejects no part of it."""
    parents = child.get("status", {}).get("parents", ())
    conditions = [condition for parent in parents for condition in parent.get("conditions", ())]
    return not refusal(child) and any(
        each["type"] == "Accepted" and each["status"] == "True" for each in conditions
    )


@per_version
def _readable(endpoint: Object) -> tuple[ModelEndpoint, ...]:
    """Return an endpoint; nothing if it cannot be read, which its own conditions report."""
    try:
        return (decode_as(ModelEndpoint, endpoint),)
    except InvalidObject:
        return ()


def _resolved(matched: int, unusable: tuple[str, ...]) -> Condition:
    named = listing(f'"{name}"' for name in unusable)
    cannot = f"the url of ModelEndpoint {named} cannot be used" if named else ""
    if not matched:
        none = (
            "no ModelEndpoint in the namespace matches spec.endpoints. "
            "A ModelDeployment adds one for each replica that serves"
        )
        return false(Type.ENDPOINTS_RESOLVED, Reason.NO_ENDPOINTS, cannot or none)
    message = f"routes to {matched} {'endpoint' if matched == 1 else 'endpoints'}"
    return true(Type.ENDPOINTS_RESOLVED, Reason.RESOLVED, f"{message}; {cannot}" if cannot else message)


def _routing(host: str, matched: tuple[Selected, ...], by_route: bool, observed: Object | None) -> Condition:
    type_ = Type.ROUTING_READY
    if not host:
        message = f'InferenceGateway "{GATEWAY}" has no address yet'
        return false(type_, Reason.WAITING_FOR_GATEWAY, message)
    if not matched:
        return false(type_, Reason.CONFIGURING, "no endpoint to route to")
    if by_route and (observed is None or not _accepted(observed)):
        why = refusal(observed) if observed is not None else ""
        waiting = "the gateway has not accepted the HTTPRoute yet"
        message = f"the gateway rejects the HTTPRoute: {why}" if why else waiting
        return false(type_, Reason.CONFIGURING, message)
    if rest := left_out(matched) if by_route else matched[MOST_ENDPOINTS:]:
        names = listing(f'"{each.endpoint.metadata.name}"' for each in rest)
        taker = f"a rule of an HTTPRoute takes {MOST_BACKENDS} backends"
        message = (
            f"{len(rest)} of {len(matched)} endpoints get no traffic, because "
            f"{taker if by_route else f'a ModelService routes to {MOST_ENDPOINTS:,}'}: {names}; "
            "select fewer endpoints, or divide them among ModelServices"
        )
        return false(type_, Reason.TOO_MANY_ENDPOINTS, message)
    return true(type_, Reason.ROUTE_CONFIGURED, "the gateway routes to its endpoints")
