"""Explanation of a ModelService: its readiness, and the endpoints that receive its requests.

The weights are those of the service's composition, which its gateway uses. Readiness comes from
the service's status, or from the composition if it has none.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelDeploymentCondition, ModelReplicaCondition
from modelplane.api.meta import Model, Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.api.names import check_reserved
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose import owner_status
from modelplane.compose.composition import Blocked, Composition, Request
from modelplane.compose.deployment import standby
from modelplane.compose.facts import ServiceRequest
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.readiness import condition_of
from modelplane.compose.replica import replica_endpoint
from modelplane.compose.service import region_rules
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.gateway_api import endpoint_backends
from modelplane.gateway.gateway_api.route_tree import ROUTE
from modelplane.gateway.region_routing import Admitted
from modelplane.gateway.services import MOST_ENDPOINTS, Target, find_target, select
from modelplane.offline.explain.statuses import Said, explain_not_ready, read_conditions
from modelplane.offline.files.diagnostics import ObjectName
from modelplane.offline.files.report_documents import Output, Report
from modelplane.offline.plan.fleet_of_files import NEVER, Files
from modelplane.offline.render.facts_of_files import find_facts, is_gateway_local
from modelplane.user_error import UserError


class RoutedEndpoint(Output, frozen=True, kw_only=True):
    """A ModelEndpoint of the service's namespace."""

    name: str
    url: str
    entry: int | None
    """Position in ``spec.endpoints`` of the entry that selects it; null if none does."""
    percent: float
    """Share of the requests; 0 if it receives none, or only those that tiers before it refuse."""
    reason: str
    """Reason why it receives requests, or why not."""


class WithoutEndpoint(Output, frozen=True, kw_only=True):
    """A ModelReplica or ModelDeployment that the service selects and that has no endpoint."""

    kind: str
    name: str
    reason: str


class ServiceExplanation(Report, frozen=True, kw_only=True):
    """Document of ``modelplane explain ms/NAME -o json``."""

    kind: Literal["ServiceExplanation"] = "ServiceExplanation"
    service: ObjectName
    ready: bool
    reason: str
    """Reason why it is not ready; empty if it is."""
    address: str
    conditions: tuple[Said, ...]
    endpoints: tuple[RoutedEndpoint, ...]
    without_endpoint: tuple[WithoutEndpoint, ...]
    notes: tuple[str, ...]


def explain_service(files: Files, service: Object) -> ServiceExplanation:
    """Explain the readiness and the endpoints of a service. Raises ``UserError``."""
    try:
        return _explained(files, service)
    except InvalidObject as error:
        raise UserError(f"{error}: correct it") from error


def _explained(files: Files, service: Object) -> ServiceExplanation:
    if not service.get("status", {}).get("conditions"):
        service = _with_status(files, service)
    decoded = decode_as(ModelService, service)
    entries = tuple(entry.selector.match_labels for entry in decoded.spec.endpoints)
    inside = _Namespace(files, decoded.metadata.namespace, entries)
    reason = explain_not_ready(service)
    return ServiceExplanation(
        service=ObjectName.of(service),
        ready=not reason,
        reason=reason or "",
        address=decoded.status.address or "",
        conditions=read_conditions(service),
        endpoints=tuple(sorted(list_endpoints(files, decoded), key=_order)),
        without_endpoint=(*inside.find_replicas(), *inside.find_deployments()),
        notes=tuple(inside.find_unmatched()),
    )


def list_endpoints(files: Files, service: ModelService) -> Iterator[RoutedEndpoint]:
    """Yield every endpoint of a service's namespace, by name."""
    announced = _announced(files, service.metadata.namespace)
    outside = {
        endpoint.metadata.name: why for endpoint, why in _admitted(files, service, announced).list_refusals()
    }
    gateways = files.store.find(fleet_gateway.REQUIREMENT)
    destinations = fleet_gateway.destinations_of(gateways, is_local=is_gateway_local(files.store))
    shares = _shares(files, service, announced, destinations)
    first = min((priority for priority, _ in shares.values()), default=0)
    weights = {name: weight for name, (priority, weight) in shares.items() if priority == first}
    total = sum(weights.values())
    for item in announced:
        name = item["metadata"]["name"]
        entry = _entry(service, item)
        yield RoutedEndpoint(
            name=name,
            url=str(item["spec"].get("url", "")),
            entry=entry,
            percent=round(100 * weights[name] / total, 2) if name in weights else 0.0,
            reason=outside.get(name) or _reason(item, service, entry, destinations, shares),
        )


def _order(endpoint: RoutedEndpoint) -> tuple[bool, float, str]:
    """Order endpoints with requests first, then by the entry that selects them."""
    entry = math.inf if endpoint.entry is None else endpoint.entry
    return not endpoint.percent, entry, endpoint.name


def _shares(
    files: Files, service: ModelService, announced: Iterable[Object], destinations: Destinations | Blocked
) -> dict[str, tuple[int, int]]:
    """Return priority and weight of the endpoints that the gateway routes to, by name."""
    composition = _composed(files, service)
    if isinstance(composition, Blocked) or isinstance(destinations, Blocked):
        return {}
    by_envoy = {
        backend.name.rpartition("/")[2]: (backend.priority, backend.weight)
        for route in composition.routes
        for backend in route.backends
    }
    if not any(child.key.startswith(ROUTE) for child in composition.children):
        return by_envoy
    # The weights in the rules are those of each rule, which has some of the endpoints.
    inside = _admitted(files, service, announced).endpoints
    selected = endpoint_backends.select_routable(select(service, inside, destinations))[:MOST_ENDPOINTS]
    return by_envoy | {
        selection.endpoint.metadata.name: (selection.priority, selection.weight) for selection in selected
    }


def _admitted(files: Files, service: ModelService, announced: Iterable[Object]) -> Admitted:
    """Return the endpoints within the region rules of the service; none if a rule cannot be read."""
    admitted = region_rules.admitted(_request(files, service), tuple(filter(None, map(_readable, announced))))
    return Admitted(()) if isinstance(admitted, Blocked) else admitted


def _entry(service: ModelService, item: Object) -> int | None:
    carried = item["metadata"].get("labels", {})
    for position, entry in enumerate(service.spec.endpoints):
        if entry.selector.match_labels.items() <= carried.items():
            return position
    return None


def _reason(
    item: Object,
    service: ModelService,
    entry: int | None,
    destinations: Destinations | Blocked,
    routed: Collection[str],
) -> str:
    """Return the reason why an endpoint receives requests, or why not."""
    metadata = item["metadata"]
    endpoint = _readable(item)
    if endpoint is None:
        return "invalid: run modelplane validate to see why"
    if entry is None:
        return _unlike(metadata.get("labels", {}), service)
    if leaving := _leaving(metadata):
        return leaving
    target = (
        Rejected(detail=destinations.cause)
        if isinstance(destinations, Blocked)
        else find_target(endpoint, destinations)
    )
    if isinstance(target, Rejected):
        return f"the url is not usable: {target.message}"
    if metadata["name"] not in routed:
        return _unrouted(endpoint, target, routed)
    selector = service.spec.endpoints[entry].selector.match_labels
    matched = (
        f"matches {_pairs(selector)}" if selector else "the entry selects every endpoint in the namespace"
    )
    if priority := service.spec.endpoints[entry].priority:
        matched = f"{matched}; of priority {priority}"
    trouble = explain_not_ready(item) if item.get("status") else None
    return f"{matched}; not ready: {trouble}" if trouble else matched


def _leaving(metadata: Mapping[str, Any]) -> str | None:
    """Return the reason why an endpoint receives no new requests any more; None if it remains in use."""
    if metadata.get("deletionTimestamp"):
        return "being deleted"
    if labels.DRAINING in metadata.get("annotations", {}):
        return "the replica is about to be deleted, so the endpoint receives no new requests"
    return None


def _unrouted(endpoint: ModelEndpoint, target: Target, routed: Collection[str]) -> str:
    """Return the reason why a selected endpoint with a valid url receives no requests."""
    if rejected := check_reserved(endpoint.metadata.namespace):
        return f"the service has no route: {rejected.message}"
    backend = endpoint_backends.build_backend(endpoint, target)
    if isinstance(backend, Rejected):
        return f"the url is not usable: {backend.message}"
    if len(routed) < MOST_ENDPOINTS:
        return "the gateway routes only to the first tier that contains an endpoint: use backend Envoy"
    return (
        f"a ModelService routes to at most {MOST_ENDPOINTS:,} endpoints, and this endpoint comes after "
        "them: use fewer endpoints"
    )


def _unlike(carried: Mapping[str, str], service: ModelService) -> str:
    """Return the labels that an endpoint lacks for the closest entry."""
    lacking = (
        {key: value for key, value in entry.selector.match_labels.items() if carried.get(key) != value}
        for entry in service.spec.endpoints
    )
    return f"no entry selects the endpoint: labels {_pairs(min(lacking, key=len))} are missing"


@dataclass(frozen=True, slots=True)
class _Namespace:
    """Objects that the entries of a service select in its namespace, besides endpoints."""

    files: Files
    name: str
    entries: tuple[Mapping[str, str], ...]

    def find_replicas(self) -> Iterator[WithoutEndpoint]:
        """Yield the selected replicas that have no endpoint."""
        announced = {item["metadata"]["name"] for item in _announced(self.files, self.name)}
        for item in self._all(ModelReplica):
            name = item["metadata"]["name"]
            if name not in announced and self._selects(item["metadata"].get("labels", {})):
                yield WithoutEndpoint(kind=kind_name(ModelReplica), name=name, reason=_unannounced(item))

    def find_deployments(self) -> Iterator[WithoutEndpoint]:
        """Yield the deployments without replicas whose replicas would be selected."""
        owners = {
            item["metadata"].get("labels", {}).get(labels.DEPLOYMENT) for item in self._all(ModelReplica)
        }
        for item in self._all(ModelDeployment):
            name = item["metadata"]["name"]
            if name not in owners and self._selects(_of_replicas(item)):
                reason = _unplaced(item, self.name)
                yield WithoutEndpoint(kind=kind_name(ModelDeployment), name=name, reason=reason)

    def find_unmatched(self) -> Iterator[str]:
        """Yield a note for each entry that selects nothing."""
        label_sets = [
            *(item["metadata"].get("labels", {}) for item in self._all(ModelEndpoint)),
            *(item["metadata"].get("labels", {}) for item in self._all(ModelReplica)),
            *map(_of_replicas, self._all(ModelDeployment)),
        ]
        for position, selector in enumerate(self.entries):
            if not any(selector.items() <= carried.items() for carried in label_sets):
                what = f"has {_pairs(selector)}" if selector else "is there"
                yield (
                    f'endpoints[{position}]: no ModelEndpoint in namespace "{self.name}" {what}, and no '
                    "ModelReplica or ModelDeployment there would create one: correct the matchLabels"
                )

    def _all(self, type_: type[Model]) -> Iterator[Object]:
        return _of(self.files, type_, self.name)

    def _selects(self, carried: Mapping[str, str]) -> bool:
        return any(selector.items() <= carried.items() for selector in self.entries)


def _unannounced(replica: Object) -> str:
    """Return the reason why a replica has no endpoint."""
    for type_ in (ModelReplicaCondition.MODEL_READY, ModelReplicaCondition.ROUTING_READY):
        condition = condition_of(replica, str(type_))
        if condition.get("status") == "False" and condition.get("message"):
            return str(condition["message"])
    return "the status doesn't report the replica as serving"


def _unplaced(deployment: Object, namespace: str) -> str:
    """Return the reason why a deployment has no replica."""
    name = deployment["metadata"]["name"]
    if deployment["spec"].get("replicas") == 0:
        return "spec.replicas is 0"
    if why := standby.explain_idle(deployment):
        return why.replace("the ModelDeployment", "it", 1)
    condition = condition_of(deployment, str(ModelDeploymentCondition.REPLICAS_SCHEDULED))
    hint = f"to see why, run `modelplane explain md/{name} -n {namespace}`"
    return str(condition.get("message")) if condition.get("status") == "False" else f"no replicas: {hint}"


def _of_replicas(deployment: Object) -> Mapping[str, str]:
    """Return the labels common to all replicas of a deployment."""
    expected = {labels.DEPLOYMENT: deployment["metadata"]["name"]}
    try:
        return {**decode_as(ModelDeployment, deployment).replica_template().labels, **expected}
    except InvalidObject:
        return expected


def _pairs(match_labels: Mapping[str, str]) -> str:
    return " and ".join(f"{key}={value}" for key, value in sorted(match_labels.items()))


def _of(files: Files, type_: type[Model], namespace: str) -> Iterator[Object]:
    objects = files.store.list_kind(type_)
    return (item for item in objects if item["metadata"].get("namespace", "") == namespace)


def _announced(files: Files, namespace: str) -> tuple[Object, ...]:
    """Return the endpoints of a namespace, without those whose replica does not serve."""
    endpoints = _of(files, ModelEndpoint, namespace)
    return tuple(item for item in endpoints if not replica_endpoint.is_placeholder(item))


def _readable(item: Object) -> ModelEndpoint | None:
    try:
        return decode_as(ModelEndpoint, item)
    except InvalidObject:
        return None


def _with_status(files: Files, service: Object) -> Object:
    """Return a service with the status that it would have."""
    composition = _composed(files, decode_as(ModelService, service))
    if isinstance(composition, Blocked):
        return service
    composed_conditions = (*composition.conditions, owner_status.derive_ready(composition, {}, ()))
    return {
        **service,
        "status": {
            **composition.status,
            "conditions": owner_status.encode_conditions(composed_conditions, (), 0, NEVER),
        },
    }


def _composed(files: Files, service: ModelService) -> Composition | Blocked:
    return COMPOSERS[kind_name(ModelService)].compose(_request(files, service))


def _request(files: Files, service: ModelService) -> ServiceRequest:
    return Request(
        service,
        {},
        # Files need not have what a composition can do without.
        {
            requirement.key: items
            for requirement in COMPOSERS[kind_name(ModelService)].requirements(service)
            if (items := files.store.find(requirement)) or not requirement.optional
        },
        find_facts(service, files.store),
    )
