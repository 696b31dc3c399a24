"""Hold: whether the requests of a ModelService wait for a replica, and why they do not.

They wait while the service has no endpoint and selects the replicas of a ModelDeployment, whatever its number
of replicas is: one that has just been scaled up from zero is not to be told from any other that starts.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelServiceCondition as Type, ModelServiceReason as Reason
from modelplane.api.inference_gateway import Backend
from modelplane.api.meta import Object
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_service import ModelService
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.deployment import standby
from modelplane.compose.facts import ServiceRequest
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.memo import per_version
from modelplane.compose.service import region_rules
from modelplane.gateway.module_files.route_files import HoldEntry, ServiceEntry
from modelplane.gateway.region_routing import Admitted

SPENT = "a budget in spec.endpoints is spent: see condition WithinBudget of the ModelService"
_BY_PLACEMENT = frozenset({labels.CLUSTER, labels.REPLICA_INDEX})
"""Labels of an endpoint that no deployment knows before its replicas are placed."""


class LeftOut(msgspec.Struct, frozen=True):
    """Endpoints that a service selects and that get no requests."""

    admitted: Admitted = Admitted(())
    """Those outside the regions of the service."""
    closed: frozenset[int] = frozenset()
    """Entries of the service whose budget is spent."""

    @property
    def rejected(self) -> Rejected | None:
        """The cause for which endpoints get no requests; None if none is left out."""
        if rule := self.admitted.rule:
            return self.admitted.rejected or Rejected(detail=str(rule))
        return Rejected(detail=SPENT) if self.closed else None


_NONE: Final = LeftOut()


def settings(request: ServiceRequest, *, has_endpoints: bool, left_out: LeftOut = _NONE) -> ServiceEntry:
    """Return what the gateway does with requests while it knows no endpoint of a service.

    A service with endpoints has its limits as well, so that they are there when it loses the last one.
    """
    limits = request.owner.spec.hold
    if limits is None or _problem(request) or not (has_endpoints or _is_awaited(request, left_out)):
        return ServiceEntry()
    entry = HoldEntry(timeout_seconds=limits.timeout_seconds, max_requests=limits.max_requests)
    return ServiceEntry(hold=entry)


def explained(
    request: ServiceRequest, routing: Condition, *, has_endpoints: bool, left_out: LeftOut = _NONE
) -> Condition:
    """Return the condition of a service's route, with what happens to requests while it has no endpoint.

    It is True for deployments that are scaled to zero: their requests wait, and are answered.
    """
    if request.owner.spec.hold is None:
        return routing
    if not has_endpoints and routing.reason == Reason.CONFIGURING:
        message = f"{routing.message}; {_without_endpoint(request, left_out)}"
        waits = settings(request, has_endpoints=False, left_out=left_out).hold is not None
        if waits and _is_scaled_to_zero(request, left_out):
            return true(Type.ROUTING_READY, Reason.ROUTE_CONFIGURED, message)
        return msgspec.structs.replace(routing, message=message)
    if routing.holds and (why := _problem(request)):
        message = (
            "routes to the service's endpoints; without endpoints, requests would receive 503 immediately: "
            f"{why}"
        )
        return false(Type.ROUTING_READY, Reason.UNSUPPORTED, message)
    return routing


def _problem(request: ServiceRequest) -> str:
    """Return why the gateway can hold no request, with the remedy; empty if it can."""
    proxy = fleet_gateway.proxy(request.found(fleet_gateway.KEY))
    if fleet_gateway.reads_gateway_api(proxy):
        return (
            f"Gateway API, which the gateway's backend {proxy} reads, cannot express spec.hold: use "
            f"backend {Backend.ENVOY} of the controllers, or remove spec.hold"
        )
    return request.facts.gateway_without_module


def _without_endpoint(request: ServiceRequest, left_out: LeftOut) -> str:
    """Return what happens to requests while a service has no endpoint."""
    if why := _problem(request):
        return f"requests receive 503 immediately: {why}"
    limits = settings(request, has_endpoints=False, left_out=left_out).hold
    if limits is None and (rejected := left_out.rejected):
        return f"requests receive 503 immediately: {rejected.message}"
    if limits is None:
        return (
            "requests receive 503 immediately, because no ModelDeployment in the namespace has the "
            "selected labels: create one, or correct spec.endpoints"
        )
    return (
        f"requests wait up to {limits.timeout_seconds} s for a replica, at most {limits.max_requests} "
        "at the same time"
    )


def selects(service: ModelService, deployment: Object) -> bool:
    """Return True if a service selects the replicas of a deployment, or if this is unknown."""
    return _match(
        find_endpoint_labels(deployment), [entry.selector.match_labels for entry in service.spec.endpoints]
    )


def _is_awaited(request: ServiceRequest, left_out: LeftOut) -> bool:
    """Return True if a deployment can bring an endpoint to which requests may go, or if this is unknown.

    The replicas of one whose endpoints are outside the regions of the service are there already.
    """
    if request.unknown(region_rules.KEY):
        return True
    admitted = left_out.admitted
    if admitted.rule is not None and not admitted.rule.regions:
        return False
    outside = {endpoint.metadata.labels.get(labels.DEPLOYMENT) for endpoint in admitted.outside}
    return any(item["metadata"]["name"] not in outside for item in _selected(request, left_out.closed))


def _is_scaled_to_zero(request: ServiceRequest, left_out: LeftOut) -> bool:
    """Return True if every deployment that a service selects is known to ask for no replica now."""
    selected = [*_selected(request, left_out.closed)]
    return bool(selected) and all(
        find_endpoint_labels(item) is not None and not standby.desired(item) for item in selected
    )


def _selected(request: ServiceRequest, closed: frozenset[int]) -> Iterator[Object]:
    """Yield the deployments that an open entry of a service selects, or may select."""
    entries = enumerate(request.owner.spec.endpoints)
    wanted = [entry.selector.match_labels for number, entry in entries if number not in closed]
    return (item for item in request.found(region_rules.KEY) if _match(find_endpoint_labels(item), wanted))


def _match(known: Mapping[str, str] | None, wanted: Iterable[Mapping[str, str]]) -> bool:
    if known is None:
        return True
    return any(
        all(known.get(key) == value for key, value in without_placement(selector)) for selector in wanted
    )


def without_placement(selector: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the labels that a selector demands, without those that no deployment knows beforehand."""
    return ((key, value) for key, value in selector.items() if key not in _BY_PLACEMENT)


@per_version
def find_endpoint_labels(deployment: Object) -> Mapping[str, str] | None:
    """Return the labels that the endpoints of a deployment are known to get; None if it cannot be read."""
    try:
        decoded = decode_as(ModelDeployment, deployment)
    except InvalidObject:
        return None
    own = decoded.replica_template().labels.items()
    of_users = {
        key: value for key, value in own if not key.startswith((labels.PREFIX, labels.CROSSPLANE_PREFIX))
    }
    return {**of_users, labels.DEPLOYMENT: decoded.metadata.name}
