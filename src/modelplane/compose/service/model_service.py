"""A ModelService is one URL for the endpoints that it selects.

The address is stable, so it stays if no endpoint is left: the gateway then answers 503 with the cause.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

import msgspec

from modelplane.api.conditions.reasons import (
    ModelEndpointReason as EndpointReason,
    ModelServiceCondition as Type,
    ModelServiceReason as Reason,
)
from modelplane.api.inference_gateway import DEFAULT_NAME as GATEWAY, Backend
from modelplane.api.listing import listing
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.names import has_route
from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Blocked, Composition, Desired, Keep, Requirement, Unknown, keep_all
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.facts import ServiceRequest
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.memo import readable
from modelplane.compose.readiness import accepted, exists, refusal
from modelplane.compose.service import hold, region_rules, service_conditions
from modelplane.gateway import balancing, region_routing
from modelplane.gateway.gateway_api import endpoint_backends, route_tree
from modelplane.gateway.gateway_api.route_tree import OTHER, ROUTE, find_implementation
from modelplane.gateway.module_files.models import ONE_URL
from modelplane.gateway.region_routing import Admitted
from modelplane.gateway.route_table import Route
from modelplane.gateway.services import (
    MOST_ENDPOINTS,
    MOST_IN_NAMESPACE,
    Selected,
    build_service_route,
    list_without_target,
    select,
    select_endpoints,
)


def requirements(service: ModelService) -> tuple[Requirement, ...]:
    """Return the requirements of a service: the gateway, and endpoints and deployments of its namespace."""
    return (
        fleet_gateway.REQUIREMENT,
        Requirement("endpoints", API_VERSION, kind_name(ModelEndpoint), namespace=service.metadata.namespace),
        region_rules.requirement(service.metadata.namespace),
        fleet_gateway.KEYS,
        fleet_gateway.replicas(service.metadata.namespace),
    )


def compose(request: ServiceRequest) -> Composition | Blocked:
    """Publish a service's address and conditions; compose its route on the gateway."""
    service = request.owner
    for key in (fleet_gateway.KEY, "endpoints"):
        if unknown := request.unknown(key):
            return Blocked(f"cannot read the {key}: {unknown.cause}")
    destinations = fleet_gateway.destinations(request, is_local=request.facts.gateway_is_local)
    if isinstance(destinations, Blocked):
        return destinations
    gateways = request.found(fleet_gateway.KEY)
    host = gateways[0].get("status", {}).get("address", "") if gateways else ""
    address = _address(service, host, tls=fleet_gateway.takes_tls(gateways))
    endpoints = tuple(chain.from_iterable(map(readable(ModelEndpoint), request.found("endpoints"))))
    admitted = region_rules.admitted(request, endpoints)
    if isinstance(admitted, Blocked):
        return admitted
    closed = service_conditions.list_closed_entries(service, request.facts.tier_budgets)
    left_out = hold.LeftOut(admitted, closed)
    matched = select(service, admitted.endpoints, destinations, closed)
    has_unusable = len(matched) != len(select_endpoints(service, admitted.endpoints))
    unusable = list_without_target(service, admitted.endpoints, destinations) if has_unusable else ()
    # Only for messages: the gateway itself looks at what the endpoints need.
    refused = tuple(
        endpoint.endpoint.metadata.name
        for endpoint in matched
        if any(condition.reason in _REFUSING for condition in endpoint.endpoint.status.conditions)
    )
    resolved = _resolved(service, matched, unusable, refused, admitted, is_closed=bool(closed))
    proxy = fleet_gateway.proxy(gateways)
    by_route = fleet_gateway.reads_gateway_api(proxy)
    children = _children(request, matched, proxy, host)
    if host and (waiting := fleet_gateway.unspoken(gateways)):
        routing = false(Type.ROUTING_READY, Reason.WAITING_FOR_GATEWAY, waiting)
    elif service.metadata.namespace == ONE_URL and request.facts.proxy is Backend.ENVOY:
        routing = false(Type.ROUTING_READY, Reason.PATH_TAKEN, _path_taken(service))
    else:
        wanted = {
            child.key for child in children if isinstance(child, Desired) and child.key.startswith(ROUTE)
        }
        observed = [request.observed.get(key) for key in sorted({ROUTE, *wanted})] if by_route else []
        routing = _routing(request, host, matched, observed)
        routing = hold.explained(request, routing, has_endpoints=bool(matched), left_out=left_out)
    if routing.holds and not matched:
        resolved = _awaited(admitted)
    routing = _balanced(request, proxy, _unless_refused(routing, matched, refused))
    budget = service_conditions.within_budget(
        service, request.facts.tier_budgets, are_counted=proxy == Backend.ENVOY
    )
    routes = _routes(request, matched, unusable, left_out)
    return Composition(
        children=children,
        status={"address": address} if address else {},
        conditions=(
            resolved,
            routing,
            *filter(None, [budget]),
            *service_conditions.unsupported_settings(request),
            *service_conditions.variant_conditions(request, matched),
        ),
        ready=resolved.holds and routing.holds,
        unsatisfied=bool(routes) and len(matched[:MOST_ENDPOINTS]) > _most(request),
        routes=routes,
    )


def _most(request: ServiceRequest) -> int:
    """Return the maximum of endpoints that the service's route leads to."""
    share = request.facts.endpoint_share
    return min(MOST_ENDPOINTS, share.most) if share else MOST_ENDPOINTS


def _address(service: ModelService, host: str, *, tls: bool) -> str:
    """Return the address of a service; a published one stays while the gateway is unavailable."""
    if not host:
        return service.status.address or ""
    return f"{'https' if tls else 'http'}://{host}/{service.metadata.namespace}/{service.metadata.name}"


def _balanced(request: ServiceRequest, proxy: str, routing: Condition) -> Condition:
    """Return the condition of a service's route, False if the gateway does not balance as it asks for."""
    if not (routing.holds and balancing.is_wanted(request.owner)):
        return routing
    why = request.facts.gateway_without_module
    if fleet_gateway.reads_gateway_api(proxy):
        why = (
            f"Gateway API, which the gateway's backend {proxy} reads, cannot express spec.balancing, "
            f"maxOutstandingRequests and maxQueuedRequests: use backend {Backend.ENVOY} of the controllers, "
            "or remove them"
        )
    if not why:
        return routing
    message = f"requests are distributed only by tier and weight: {why}"
    return false(Type.ROUTING_READY, Reason.UNSUPPORTED, message)


def _children(
    request: ServiceRequest, matched: tuple[Selected, ...], proxy: str, host: str
) -> tuple[Desired | Keep, ...]:
    if fleet_gateway.reads_gateway_api(proxy) and matched:
        return _through_gateway(request, matched, proxy, host)
    return () if proxy == Backend.ENVOY else keep_all(request.observed)


def _through_gateway(
    request: ServiceRequest, matched: tuple[Selected, ...], proxy: str, host: str
) -> tuple[Desired | Keep, ...]:
    """Return the objects that a gateway reads to route a service to its endpoints.

    The route that takes the requests changes last: those that it leads to must be there before.
    """
    keys = fleet_gateway.keys_of(request)
    if isinstance(keys, Unknown):
        return keep_all(request.observed)  # clusters may require tokens
    selected = endpoint_backends.select_routable(matched)[:MOST_ENDPOINTS]
    known = [item for key, item in request.observed.items() if key.startswith(ROUTE)]
    gateway = find_implementation(proxy, known)
    serving = request.observed.get(ROUTE)
    # What an unknown gateway has served so far, it goes on serving.
    kept_form = gateway is OTHER and serving is not None and route_tree.has_rewrites_per_backend(serving)
    per_backend = gateway.rewrites_per_backend or kept_form
    found = route_tree.build_routes(request.owner, selected, keys, per_backend=per_backend)
    first, *rest = (Desired(key, manifest, accepted) for key, manifest in found.items())
    steps: tuple[Desired, ...] = tuple(rest)
    if route_tree.has_steps(found):
        front = endpoint_backends.build_front(request.owner, host)
        if isinstance(front, Rejected):
            return keep_all(request.observed)  # the gateway has no address yet
        steps = (*(Desired(key, manifest, exists) for key, manifest in front.items()), *rest)
    is_there = all(step.key in request.observed and step.ready(request.observed[step.key]) for step in steps)
    has_changed = serving is not None and route_tree.find_replacement(serving) == route_tree.find_replacement(
        first.manifest
    )
    named = {ROUTE, *(step.key for step in steps)}
    # What the route leads to until it has changed.
    former = [] if is_there and has_changed else [key for key in request.observed if key not in named]
    kept = keep_all([*former, *([ROUTE] if serving is not None and not is_there else [])])
    return (*([first] if is_there else []), *steps, *kept)


def _routes(
    request: ServiceRequest,
    matched: tuple[Selected, ...],
    unusable: tuple[str, ...],
    left_out: hold.LeftOut,
) -> tuple[Route, ...]:
    """Return the route of a service on Envoy, which needs no status of the InferenceGateway to serve it.

    A service in a reserved namespace keeps the route to an address that it has, and gets no new one.
    """
    service = request.owner
    reaches_envoy = request.facts.proxy is Backend.ENVOY
    if not (reaches_envoy and has_route(service.metadata.namespace, service.status.address)):
        return ()
    route, admitted = build_service_route(service, matched[: _most(request)], unusable), left_out.admitted
    if matched and not route.backends:
        route = replace(route, unavailable=f'cannot serve ModelService "{route.name}": {_FULL}')
    elif not matched and (admitted.outside or (admitted.rule and not admitted.rule.regions)):
        route = replace(route, unavailable=region_routing.explain_unavailable(service, admitted))
    elif left_out.closed and not matched:
        route = replace(route, unavailable=f'cannot serve ModelService "{route.name}": {hold.SPENT}')
    held = hold.settings(request, has_endpoints=bool(matched), left_out=left_out).hold
    return (replace(route, settings=msgspec.structs.replace(route.settings, hold=held)),)


def _path_taken(service: ModelService) -> str:
    name = f"{service.metadata.namespace}/{service.metadata.name}"
    return (
        f"paths below /{ONE_URL}/ are routed by the request's model, so services in namespace "
        f'"{ONE_URL}" have no paths: use another namespace, or name the model "{name}" in requests to '
        f"/{ONE_URL}/"
    )


_REFUSING = frozenset({EndpointReason.UNSUPPORTED, EndpointReason.SECRET_REFUSED})


def _named(endpoints: Iterable[str]) -> str:
    names = listing(f'"{name}"' for name in endpoints)
    return f"ModelEndpoint {names}"


def _resolved(
    service: ModelService,
    matched: tuple[Selected, ...],
    unusable: tuple[str, ...],
    refused: tuple[str, ...],
    admitted: Admitted,
    *,
    is_closed: bool,
) -> Condition:
    cannot = "; ".join(
        text
        for names, text in (
            (admitted.outside, admitted.rejected.message if admitted.rejected else ""),
            (unusable, f"the url of {_named(unusable)} is not usable"),
            (refused, f"{_named(refused)} receives no requests: see the conditions of that endpoint"),
        )
        if names
    )
    if not matched:
        none = (
            "no ModelEndpoint in the namespace matches spec.endpoints. "
            "A ModelDeployment adds one for each replica that serves"
        )
        if is_closed:
            none = f"no endpoints remain: {hold.SPENT}"
        reason = Reason.OUTSIDE_REGIONS if admitted.outside else Reason.NO_ENDPOINTS
        return false(Type.ENDPOINTS_RESOLVED, reason, cannot or none)
    count = len(matched)
    message = f"routes to {count} {'endpoint' if count == 1 else 'endpoints'}{_by_priority(service, matched)}"
    return true(Type.ENDPOINTS_RESOLVED, Reason.RESOLVED, f"{message}; {cannot}" if cannot else message)


def _unless_refused(routing: Condition, matched: tuple[Selected, ...], refused: tuple[str, ...]) -> Condition:
    """Return the condition of a service's route, False if no endpoint gets requests by its own conditions."""
    if not (routing.holds and matched and len(refused) == len(matched)):
        return routing
    message = f"none of the endpoints receives requests: see the conditions of {_named(refused)}"
    return false(Type.ROUTING_READY, Reason.UNSUPPORTED, message)


def _awaited(admitted: Admitted) -> Condition:
    """Return the condition of a service whose requests wait for replicas that are scaled to zero."""
    message = "every selected ModelDeployment is scaled to zero, so there are no endpoints now"
    message = f"{message}; {admitted.rejected.message}" if admitted.rejected else message
    return true(Type.ENDPOINTS_RESOLVED, Reason.RESOLVED, message)


def _by_priority(service: ModelService, matched: tuple[Selected, ...]) -> str:
    """Return how many endpoints each tier of a service has, and which tier serves; empty for one tier."""
    counts = dict.fromkeys(sorted({entry.priority for entry in service.spec.endpoints}), 0)
    if len(counts) == 1:
        return ""
    for endpoint in matched:
        counts[endpoint.priority] += 1
    tiers = ", ".join(f"{count or 'none'} of priority {priority}" for priority, count in counts.items())
    return f": {tiers}; requests go to priority {matched[0].priority} first"


_FULL = (
    f"all ModelServices of a namespace together can route to {MOST_IN_NAMESPACE:,} endpoints, and other "
    "ModelServices use them"
)


def _routing(
    request: ServiceRequest, host: str, matched: tuple[Selected, ...], observed: list[Object | None]
) -> Condition:
    """Return whether requests reach the endpoints; ``observed`` are the HTTPRoutes, if there are any."""
    type_ = Type.ROUTING_READY
    if not host:
        return false(type_, Reason.WAITING_FOR_GATEWAY, f'InferenceGateway "{GATEWAY}" has no address yet')
    if not matched:
        return false(type_, Reason.CONFIGURING, "no endpoints to route to")
    if not all(item is not None and accepted(item) for item in observed):
        why = next((said for item in observed if item is not None and (said := refusal(item))), None)
        waiting = "the gateway has not accepted the HTTPRoute yet"
        message = f"the gateway rejects the HTTPRoute: {why}" if why else waiting
        return false(type_, Reason.CONFIGURING, message)
    if observed and (
        ignored := [endpoint for endpoint in matched if endpoint.priority != matched[0].priority]
    ):
        names = listing(f'"{endpoint.endpoint.metadata.name}"' for endpoint in ignored)
        message = (
            f"no requests go to {names} while an endpoint of priority {matched[0].priority} exists, even "
            f'if it fails, because InferenceGateway "{GATEWAY}" has a backend without priorities: use the '
            "backend Envoy"
        )
        return false(type_, Reason.UNSUPPORTED, message)
    return _within_maximum(request, endpoint_backends.select_routable(matched) if observed else matched)


def _within_maximum(request: ServiceRequest, routable: Sequence[Selected]) -> Condition:
    """Return whether the route leads to every endpoint, and whether it leads to more than it should."""
    type_, most, share = Type.ROUTING_READY, _most(request), request.facts.endpoint_share
    if rest := routable[most:]:
        names = listing(f'"{endpoint.endpoint.metadata.name}"' for endpoint in rest)
        limit = _FULL if most < MOST_ENDPOINTS else f"a ModelService routes to {MOST_ENDPOINTS:,}"
        among = "namespaces" if most < MOST_ENDPOINTS else "ModelServices"
        message = (
            f"{len(rest)} of {len(routable)} endpoints receive no requests, because {limit}: {names}; "
            f"select fewer endpoints, or divide them among {among}"
        )
        return false(type_, Reason.TOO_MANY_ENDPOINTS, message)
    if not request.facts.is_route_loaded:
        message = f'InferenceGateway "{GATEWAY}" has not loaded the route to the endpoints yet'
        return false(type_, Reason.CONFIGURING, message)
    if share and share.is_beyond:
        message = (
            f"the gateway routes to its {len(routable)} endpoints and adds no others: the ModelServices of a "
            f"namespace may route to {MOST_IN_NAMESPACE:,} endpoints together, and older ones have them: "
            "select fewer endpoints, or divide them among namespaces"
        )
        return true(type_, Reason.KEEPS_ENDPOINTS, message)
    return true(type_, Reason.ROUTE_CONFIGURED, "the gateway routes to the endpoints")
