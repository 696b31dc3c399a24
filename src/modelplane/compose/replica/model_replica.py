"""A ModelReplica composes the workloads of one replica on one cluster, and its endpoint.

Each engine gets a Deployment or a LeaderWorkerSet, the claims of its pods and a budget for evictions; the
whole replica gets a route from the cluster's gateway at ``/<namespace>/<replica>/``. All of these are on the
replica's cluster, in a namespace of the same name. On the control plane there is a ModelEndpoint for as long
as the replica serves.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelReplicaCondition as Type
from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.cluster.mutual_tls_settings import EndpointMutualTLS
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import format_subject
from modelplane.api.meta import API_VERSION, Object, ObjectMeta, kind_name
from modelplane.api.model_cache import CachePhase, ModelCache
from modelplane.api.model_endpoint import ModelEndpoint, ModelEndpointSpec
from modelplane.api.model_replica import ModelReplica
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import decode_as, encode
from modelplane.compose.cluster import cluster_namespace, reachability
from modelplane.compose.composition import Blocked, Composition, Desired, Keep, Requirement, keep_all
from modelplane.compose.conditions import READY, Condition, false, last_said, true
from modelplane.compose.facts import ReplicaRequest
from modelplane.compose.gateway.fleet_gateway import KEYS, link
from modelplane.compose.readiness import exists, is_behind, is_ready, when_condition
from modelplane.compose.replica import endpoint_manifests, pod_key_policy, pod_problems, replica_status
from modelplane.compose.replica.backends.backend import disruption_budget
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
from modelplane.compose.replica.replica_status import (
    CLUSTER_KEY,
    PICKER_PODS,
    announced,
    decoded_cluster,
    eviction_conditions,
    pods_of,
    readiness,
    status,
)
from modelplane.compose.replica.superseded import superseded

ENDPOINT_KEY = "endpoint"
"""Key of the ModelEndpoint."""


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
        return _drained(request)
    if blocked := _unreadable(request):
        return blocked
    if not request.found(CLUSTER_KEY):
        detail = f'InferenceCluster "{replica.spec.cluster_name}" does not exist'
        # Objects that were observed on it may be gone.
        return _kept(request, Rejected(Reason.WAITING_FOR_CLUSTER, detail=detail), running={})
    cluster = decoded_cluster(request.found(CLUSTER_KEY)[0])
    planned = _planned(request, cluster)
    if isinstance(planned, Rejected):
        return _kept(request, planned, _running(request))
    copied, workloads = planned
    linked = link(request, cluster, request.observed.get(ROUTE_KEY))
    written = (child for workload in workloads for child in _workload(workload, request.observed))
    children = (*copied.children, *written, *build_route_objects(replica, linked))
    seen = [pod for requirement in _pod_requirements(replica) for pod in request.found(requirement.key)]
    desired = {child.key: child.manifest for child in children if isinstance(child, Desired)}
    accepted, ready = _conditions(request, desired)
    endpoint = _endpoint(request, cluster) if ready.holds else _kept_if_unobserved(request)
    return Composition(
        children=(
            *children,
            *superseded(request.observed, (child.key for child in children), seen),
            *endpoint,
        ),
        placeholders=() if endpoint else _placeholder(request),
        status={
            **status(request, serves=ready.holds),
            **replica_status.failure_status(request),
            **pod_problems.device_status(seen),
        },
        conditions=(
            accepted,
            ready,
            announced(replica, ready.holds, endpoint),
            *eviction_conditions(request, serves=ready.holds),
            *pod_problems.device_conditions(seen),
        ),
        ready=ready.holds,
    )


def _endpoint(request: ReplicaRequest, cluster: InferenceCluster) -> tuple[Desired | Keep, ...]:
    """Return the endpoint of a serving replica; the existing one if its cluster has no address."""
    gateway = cluster.status.gateway
    if not (gateway and gateway.address):
        return _kept_endpoint(request)
    metadata = request.owner.metadata
    path = f"/{metadata.namespace}/{metadata.name}/"
    endpoint = ModelEndpoint(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            labels=dict(endpoint_manifests.passed_on(metadata.labels)),
            annotations=endpoint_manifests.annotations(request.owner),
        ),
        spec=ModelEndpointSpec(
            url=f"{'https' if gateway.server_name else 'http'}://{gateway.address}{path}v1",
            rewrite_path=path,
            region=cluster.find_region() or None,
            mutual_tls=EndpointMutualTLS(server_name=gateway.server_name) if gateway.server_name else None,
        ),
    )
    return (Desired(ENDPOINT_KEY, encode(endpoint), when_condition(READY)),)


def _placeholder(request: ReplicaRequest) -> tuple[Desired, ...]:
    """Return the endpoint of a replica that does not serve; nothing if its cluster never had an address."""
    announcing = (
        child.manifest
        for found in request.found(CLUSTER_KEY)
        for child in _endpoint(request, decoded_cluster(found))
        if isinstance(child, Desired)
    )
    endpoint = next(announcing, request.observed.get(ENDPOINT_KEY))
    if endpoint is None:
        return ()
    return (Desired(ENDPOINT_KEY, endpoint_manifests.placeholder(endpoint), exists),)


def _kept_endpoint(request: ReplicaRequest) -> tuple[Desired | Keep, ...]:
    """Return the existing endpoint, in the region that its cluster has by now."""
    endpoint = request.observed.get(ENDPOINT_KEY)
    if endpoint is None or endpoint_manifests.is_placeholder(endpoint):
        return ()
    for found in request.found(CLUSTER_KEY):
        region = decoded_cluster(found).find_region()
        if endpoint.get("spec", {}).get("region", "") != region:
            moved = endpoint_manifests.in_region(endpoint, region)
            return (Desired(ENDPOINT_KEY, moved, when_condition(READY)),)
    return (Keep(ENDPOINT_KEY),)


def _kept_if_unobserved(request: ReplicaRequest) -> tuple[Desired | Keep, ...]:
    """Keep the endpoint while the state of an engine is unknown."""
    workloads = {workload_key(request.owner, engine) for engine in request.owner.spec.engines}
    return _kept_endpoint(request) if workloads & request.facts.unobserved else ()


def _drained(request: ReplicaRequest) -> Composition:
    """Withdraw the endpoint, whatever the state of the cluster, and keep all other children.

    While a route still leads to the endpoint, it is only marked as draining.
    """
    said = last_said(request.owner.status, (Type.MODEL_ACCEPTED, Type.MODEL_READY, Type.DEVICES_HEALTHY))
    endpoint: tuple[Desired, ...] = ()
    withdrawn = false(
        Type.ROUTING_READY, Reason.DRAINING, "draining: services send no new requests to the replica"
    )
    if request.facts.routed_by and ENDPOINT_KEY in request.observed:
        endpoint = (
            Desired(
                ENDPOINT_KEY, endpoint_manifests.marked(request.observed[ENDPOINT_KEY]), when_condition(READY)
            ),
        )
        withdrawn = true(
            Type.ROUTING_READY, Reason.DRAINING, f"{request.facts.routed_by} still routes to the replica"
        )
    return Composition(
        children=(*_all_but_endpoint(request), *endpoint),
        status=_kept_status(request),
        conditions=(*said, withdrawn),
        ready=any(condition.type == Type.MODEL_READY and condition.holds for condition in said),
    )


def _all_but_endpoint(request: ReplicaRequest) -> tuple[Keep, ...]:
    return keep_all(key for key in request.observed if key != ENDPOINT_KEY)


def _unreadable(request: ReplicaRequest) -> Blocked | None:
    """Return the first requirement that could not be read; None if all relevant ones were."""
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


def _kept(request: ReplicaRequest, why: Rejected, running: Mapping[str, Object | None]) -> Composition:
    """Keep every child, and report why; a serving replica keeps its endpoint."""
    owner = request.owner
    if running and not _is_absent(request):
        ready = readiness(request, running)
    else:
        ready = false(Type.MODEL_READY, Reason.WAITING_FOR_MODEL, why.message)
    accepted = false(Type.MODEL_ACCEPTED, why.reason, why.message)
    endpoint = _kept_endpoint(request) if ready.holds else ()
    return Composition(
        children=(*_all_but_endpoint(request), *endpoint),
        placeholders=() if endpoint else _placeholder(request),
        status=_kept_status(request),
        conditions=(
            accepted,
            ready,
            announced(owner, ready.holds, endpoint),
            *pod_problems.known_devices(owner),
        ),
        ready=ready.holds,
    )


def _kept_status(request: ReplicaRequest) -> Object:
    """Return the status of a replica whose pods are not looked at."""
    owner = request.owner
    return {**status(request), **replica_status.kept_failures(owner), **pod_problems.kept_devices(owner)}


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


def _planned(
    request: ReplicaRequest, cluster: InferenceCluster
) -> tuple[Copies, tuple[Workload, ...]] | Rejected:
    """Return the copies and the workloads of a replica, or the first reason against them."""
    rejected = (
        _closed(request)
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
    return _not_staged(request) or (copied, planned)


def _closed(request: ReplicaRequest) -> Rejected | None:
    """Return why nothing may be written into the namespace on the cluster; None if it may."""
    cluster, namespace = request.owner.spec.cluster_name, request.owner.metadata.namespace
    if unknown := request.unknown(cluster_namespace.key(cluster)):
        detail = f'cannot read Namespace "{namespace}" on cluster "{cluster}": {unknown.cause}'
        return Rejected(Reason.WAITING_FOR_CLUSTER, detail=detail)
    return cluster_namespace.rejected(request, cluster) or cluster_namespace.terminating(request, cluster)


def _not_staged(request: ReplicaRequest) -> Rejected | None:
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


def _workload(workload: Workload, observed: Mapping[str, Object]) -> Iterator[Desired]:
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
    if budget := disruption_budget(workload):
        yield Desired(f"disruption-{engine.name}", budget, exists, cluster)


def _conditions(request: ReplicaRequest, desired: Mapping[str, Object]) -> tuple[Condition, Condition]:
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
