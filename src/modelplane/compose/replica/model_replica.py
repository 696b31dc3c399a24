"""A ModelReplica composes the workloads of one replica on one cluster, and its endpoint.

Each engine gets a Deployment or a LeaderWorkerSet, the claims of its pods and a budget for evictions; the
whole replica gets a route from the cluster's gateway at ``/<namespace>/<replica>/``. All of these are on the
replica's cluster, in a namespace of the same name. On the control plane there is a ModelEndpoint for as long
as the replica serves.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelReplicaCondition as Type, ModelReplicaReason as Reason
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import format_subject
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_cache import CachePhase, ModelCache
from modelplane.api.model_replica import ModelReplica
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import decode_as
from modelplane.compose.cluster import cluster_namespace, reachability
from modelplane.compose.composition import Blocked, Composition, Desired, Keep, Requirement, keep_all
from modelplane.compose.conditions import READY, Condition, false, list_written, true
from modelplane.compose.facts import ReplicaRequest
from modelplane.compose.gateway.fleet_gateway import KEYS, link
from modelplane.compose.readiness import exists, is_behind, is_ready, when_condition
from modelplane.compose.replica import pod_key_policy, pod_problems, replica_endpoint, replica_status
from modelplane.compose.replica.backends.disruption_budget import build_disruption_budget
from modelplane.compose.replica.backends.picker_workload import picker_name
from modelplane.compose.replica.backends.replica_routes import ROUTE_KEY, build_route_objects
from modelplane.compose.replica.backends.table import (
    backend_of,
    marks_of,
    plan,
    reject_other_backend,
    workload_key,
    workload_keys,
)
from modelplane.compose.replica.backends.workload import (
    FORMER,
    Workload,
    claim_template,
    is_former,
    picks,
    spec_hash,
    with_spec_hash,
)
from modelplane.compose.replica.copied_references import Copies, copies, reference_requirements
from modelplane.compose.replica.replica_endpoint import ENDPOINT_KEY
from modelplane.compose.replica.replica_status import (
    CLUSTER_KEY,
    PICKER_PODS,
    decoded_cluster,
    eviction_conditions,
    pods_of,
    readiness,
    report_routing,
    status,
)
from modelplane.compose.replica.superseded import keep_superseded


def requirements(replica: ModelReplica) -> tuple[Requirement, ...]:
    """Return the requirements of a replica: its cluster, the objects that it names, and its pods there."""
    return (
        Requirement(CLUSTER_KEY, API_VERSION, kind_name(InferenceCluster), name=replica.spec.cluster_name),
        cluster_namespace.home(replica.metadata.namespace),
        cluster_namespace.requirement(replica.metadata.namespace, replica.spec.cluster_name),
        KEYS,
        *_cache_requirement(replica),
        *reference_requirements(replica),
        *_pod_requirements(replica),
    )


def _cache_requirement(replica: ModelReplica) -> Iterator[Requirement]:
    if cache := replica.spec.model_cache_ref:
        namespace = replica.metadata.namespace
        yield Requirement("cache", API_VERSION, kind_name(ModelCache), namespace=namespace, name=cache.name)


def _pod_requirements(replica: ModelReplica) -> Iterator[Requirement]:
    selected = {pods_of(engine.name): marks_of(replica, engine).pods for engine in replica.spec.engines}
    if picks(replica):
        selected[PICKER_PODS] = {labels.WORKLOAD: picker_name(replica)}
    for key, matched in selected.items():
        yield Requirement(
            key,
            "v1",
            "Pod",
            namespace=replica.metadata.namespace,
            labels=dict(matched),
            cluster=replica.spec.cluster_name,
        )


def compose(request: ReplicaRequest) -> Composition | Blocked:
    """Compose the workloads of a replica and the routes to them."""
    replica = request.owner
    if replica.spec.draining:
        return _withdraw_endpoint(request)
    if blocked := _find_unreadable(request):
        return blocked
    if not request.found(CLUSTER_KEY):
        detail = f'InferenceCluster "{replica.spec.cluster_name}" does not exist'
        # Objects that were observed on it may be gone.
        return _keep_all_and_report(request, Rejected(Reason.WAITING_FOR_CLUSTER, detail=detail), running={})
    cluster = decoded_cluster(request.found(CLUSTER_KEY)[0])
    planned = _plan_workloads(request, cluster)
    if isinstance(planned, Rejected):
        return _keep_all_and_report(request, planned, _running(request))
    copied, workloads = planned
    linked = link(request, cluster, request.observed.get(ROUTE_KEY))
    written = (child for workload in workloads for child in _build_children(workload, request.observed))
    children = (*copied.children, *written, *build_route_objects(replica, linked))
    seen = [pod for requirement in _pod_requirements(replica) for pod in request.found(requirement.key)]
    desired = {child.key: child.manifest for child in children if isinstance(child, Desired)}
    accepted, ready = _report_engines(request, desired)
    endpoint = replica_endpoint.build_or_keep(request, cluster, serves=ready.holds)
    return Composition(
        children=(
            *children,
            *keep_superseded(request.observed, (child.key for child in children), seen),
            *endpoint,
        ),
        placeholders=() if endpoint else replica_endpoint.announce_not_serving(request),
        status={
            **status(request, serves=ready.holds),
            **replica_status.failure_status(request),
            **pod_problems.device_status(seen),
        },
        conditions=(
            accepted,
            ready,
            report_routing(replica, ready.holds, endpoint),
            *eviction_conditions(request, serves=ready.holds),
            *pod_problems.device_conditions(seen),
        ),
        ready=ready.holds,
    )


def _withdraw_endpoint(request: ReplicaRequest) -> Composition:
    """Withdraw the endpoint, whatever the state of the cluster, and keep all other children.

    While a route still leads to the endpoint, it is only marked as draining.
    """
    said = list_written(request.owner.status, (Type.MODEL_ACCEPTED, Type.MODEL_READY, Type.DEVICES_HEALTHY))
    endpoint: tuple[Desired, ...] = ()
    withdrawn = false(
        Type.ROUTING_READY, Reason.DRAINING, "draining: services send no new requests to the replica"
    )
    if request.facts.routed_by and ENDPOINT_KEY in request.observed:
        draining = replica_endpoint.mark_draining(request.observed[ENDPOINT_KEY])
        endpoint = (Desired(ENDPOINT_KEY, draining, when_condition(READY)),)
        withdrawn = true(
            Type.ROUTING_READY, Reason.DRAINING, f"{request.facts.routed_by} still routes to the replica"
        )
    return Composition(
        children=(*_all_but_endpoint(request), *endpoint),
        status=_keep_status(request),
        conditions=(*said, withdrawn),
        ready=any(condition.type == Type.MODEL_READY and condition.holds for condition in said),
    )


def _all_but_endpoint(request: ReplicaRequest) -> tuple[Keep, ...]:
    return keep_all(key for key in request.observed if key != ENDPOINT_KEY)


def _find_unreadable(request: ReplicaRequest) -> Blocked | None:
    name = request.owner.spec.cluster_name
    if unknown := request.unknown(CLUSTER_KEY):
        return Blocked(f'cannot read InferenceCluster "{name}": {unknown.cause}')
    if not request.found(CLUSTER_KEY):
        return None
    for requirement in _pod_requirements(request.owner):
        if unknown := request.unknown(requirement.key):
            return Blocked(f'cannot observe cluster "{name}": {unknown.cause}')
    for requirement in (*_cache_requirement(request.owner), *reference_requirements(request.owner)):
        if unknown := request.unknown(requirement.key):
            return Blocked(f'cannot read {requirement.kind} "{requirement.name}": {unknown.cause}')
    return None


def _keep_all_and_report(
    request: ReplicaRequest, why: Rejected, running: Mapping[str, Object | None]
) -> Composition:
    """Keep every child, and report why; a serving replica keeps its endpoint."""
    owner = request.owner
    if running and not _is_absent(request):
        ready = readiness(request, running)
    else:
        ready = false(Type.MODEL_READY, Reason.WAITING_FOR_MODEL, why.message)
    accepted = false(Type.MODEL_ACCEPTED, why.reason, why.message)
    endpoint = replica_endpoint.keep_endpoint(request) if ready.holds else ()
    return Composition(
        children=(*_all_but_endpoint(request), *endpoint),
        placeholders=() if endpoint else replica_endpoint.announce_not_serving(request),
        status=_keep_status(request),
        conditions=(
            accepted,
            ready,
            report_routing(owner, ready.holds, endpoint),
            *pod_problems.keep_device_condition(owner),
        ),
        ready=ready.holds,
    )


def _keep_status(request: ReplicaRequest) -> Object:
    """Return the status of a replica whose pods are not looked at."""
    owner = request.owner
    return {
        **status(request),
        **replica_status.keep_failure_status(owner),
        **pod_problems.keep_device_status(owner),
    }


def _is_absent(request: ReplicaRequest) -> bool:
    """Return True if it is known that no engine is on the cluster, so that the replica holds no devices."""
    owner = request.owner
    keys = {key for engine in owner.spec.engines for key in workload_keys(owner, engine)}
    return keys.isdisjoint(request.observed.keys() | request.facts.unobserved)


def _running(request: ReplicaRequest) -> dict[str, Object | None]:
    """Return the observed workload of each engine, of its present shape or of the previous one."""
    owner, observed = request.owner, request.observed
    return {
        engine.name: next((observed[key] for key in workload_keys(owner, engine) if key in observed), None)
        for engine in owner.spec.engines
    }


def _plan_workloads(
    request: ReplicaRequest, cluster: InferenceCluster
) -> tuple[Copies, tuple[Workload, ...]] | Rejected:
    """Return the copies and the workloads of a replica, or the first reason against them."""
    rejected = (
        _reject_namespace(request)
        or reject_other_backend(request.owner, request.observed)
        or pod_key_policy.rejected(request.owner, cluster.metadata.name, cluster.spec)
    )
    if rejected:
        return rejected
    copied = copies(request, cluster)
    if isinstance(copied, Rejected):
        return copied
    planned = plan(request.owner, cluster, copied.names)
    if isinstance(planned, Rejected):
        return planned
    return _reject_unstaged(request) or (copied, planned)


def _reject_namespace(request: ReplicaRequest) -> Rejected | None:
    """Return why nothing may be written into the namespace on the cluster; None if it may."""
    cluster, namespace = request.owner.spec.cluster_name, request.owner.metadata.namespace
    if unknown := request.unknown(cluster_namespace.key(cluster)):
        detail = f'cannot read Namespace "{namespace}" on cluster "{cluster}": {unknown.cause}'
        return Rejected(Reason.WAITING_FOR_CLUSTER, detail=detail)
    return cluster_namespace.rejected(request, cluster) or cluster_namespace.terminating(request, cluster)


def _reject_unstaged(request: ReplicaRequest) -> Rejected | None:
    """Return why the weights are not staged; None once they are, or once a workload exists."""
    replica = request.owner
    reference = replica.spec.model_cache_ref
    if reference is None or any(_running(request).values()):
        return None
    named = f'ModelCache "{reference.name}"'
    if not request.found("cache"):
        detail = f"there is no {named} in the namespace"
        return Rejected(Reason.WAITING_FOR_CACHE, detail=detail, remedy="create it")
    clusters = decode_as(ModelCache, request.found("cache")[0]).status.clusters
    state = next((cluster for cluster in clusters if cluster.name == replica.spec.cluster_name), None)
    where = f'cluster "{replica.spec.cluster_name}"'
    if state is None:
        detail = f"does not cover {where}: see its status for the covered clusters, and why"
        return Rejected(Reason.WAITING_FOR_CACHE, named, detail)
    if state.phase is CachePhase.READY:
        return None
    detail = f"is {state.phase or CachePhase.PENDING} on {where}"
    return Rejected(
        Reason.WAITING_FOR_CACHE, named, f"{detail}: {state.message}" if state.message else detail
    )


def _build_children(workload: Workload, observed: Mapping[str, Object]) -> Iterator[Desired]:
    """Yield the claims, the workload and the budget of an engine.

    A workload that an earlier version wrote keeps its form, so that an upgrade restarts no pods.
    """
    cluster, engine = workload.replica.spec.cluster_name, workload.engine
    claims = {member.role: claim_template(workload, member) for member in engine.members}
    for role, claim in claims.items():
        if claim is not None:
            key = f"resource-claim-{engine.name}-{role.lower()}-{claim['metadata']['name'][-5:]}"
            yield Desired(key, claim, exists, cluster)
    backend = backend_of(workload.replica, engine)
    if backend.heads(workload.replica, engine):
        key = backend.key(workload.replica, engine)
        manifest = with_spec_hash(backend.workload(workload, claims))
        there = observed.get(key)
        if there is not None and spec_hash(there) != spec_hash(manifest):
            formers = (backend.workload(replace(workload, form=form), claims) for form in FORMER)
            manifest = next((with_spec_hash(old) for old in formers if is_former(there, old)), manifest)
        yield Desired(key, manifest, is_ready, cluster)
    if budget := build_disruption_budget(workload):
        yield Desired(f"disruption-{engine.name}", budget, exists, cluster)


def _report_engines(request: ReplicaRequest, desired: Mapping[str, Object]) -> tuple[Condition, Condition]:
    """Return ModelAccepted and ModelReady, from what is observed of the engines."""
    replica = request.owner
    where = f'cluster "{replica.spec.cluster_name}"'
    keys = {engine.name: workload_key(replica, engine) for engine in replica.spec.engines}
    observed = {name: request.observed.get(key) for name, key in keys.items()}
    missing = [name for name, child in observed.items() if child is None]
    if request.facts.silence is not None:
        message = reachability.report(replica.spec.cluster_name, request.facts.silence)
        waiting = false(Type.MODEL_READY, Reason.WAITING_FOR_MODEL, message)
        return (
            false(Type.MODEL_ACCEPTED, Reason.CLUSTER_UNREACHABLE, message),
            waiting if missing else readiness(request, observed),
        )
    if missing:
        message = f"{format_subject('engine', missing, 'is', 'are')} being created on {where}"
        ready_reason = Reason.WAITING_FOR_MODEL if _is_absent(request) else Reason.MODEL_STARTING
        return (
            false(Type.MODEL_ACCEPTED, Reason.DEPLOYING, message),
            false(Type.MODEL_READY, ready_reason, message),
        )
    ready = readiness(request, observed)
    behind = [name for name, key in keys.items() if is_behind(desired[key], request.observed[key])]
    if behind and ready.holds:
        # Pods from before the edit may still serve, so services keep sending requests.
        message = f"{format_subject('engine', behind, 'is', 'are')} being updated on {where}"
        return true(Type.MODEL_ACCEPTED, Reason.UPDATING, message), ready
    return true(Type.MODEL_ACCEPTED, Reason.ACCEPTED, f"every engine is deployed on {where}"), ready
