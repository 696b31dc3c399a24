"""The replicas that a placement asks for, as ModelReplicas by key, and the slots of a deployment."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

from modelplane import scheduler
from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelReplicaCondition
from modelplane.api.fields.cluster.devices import DeviceSelector
from modelplane.api.fields.pods.engines import Serving, ServingBackend
from modelplane.api.fields.pods.pod_scheduler import PodScheduler
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import LocalReference, Object, ObjectMeta
from modelplane.api.model_deployment import Engine, ModelDeployment, ReplicaTemplate
from modelplane.api.model_replica import (
    ModelReplica,
    ModelReplicaSpec,
    PlacedEngine,
    PlacedMember,
    ResolvedRequest,
)
from modelplane.api.names import name_replica
from modelplane.api.schema.decode import InvalidObject, convert, decode_as
from modelplane.compose.cluster.reachability import find_reported_error
from modelplane.compose.deployment.canary import Canary, has_revision
from modelplane.compose.deployment.demands import stable_template
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.replica_lifecycle import Phase, Policy, Runs, Slot
from modelplane.compose.deployment.replica_state import (
    is_draining,
    is_surge,
    is_updating,
    list_replicas,
    same_spec,
    serves,
)
from modelplane.compose.deployment.revisions import revision
from modelplane.compose.deployment.rollout_limits import compute_limits
from modelplane.compose.readiness import condition_of

Placed: TypeAlias = dict[str, ModelReplica]
"""The replicas that are to exist, by key."""


def build_replicas(
    request: DeploymentRequest, placement: scheduler.Placement, trial: Canary | None
) -> Placed:
    """Return the replicas of a placement that are not leaving; those that are pinned are as observed."""
    current = request.owner.replica_template()
    stable = stable_template(request.owner, trial, request.observed) or current
    taken = {assignment.replica for assignment in placement.assignments if assignment.replica}
    placed: Placed = {}
    for assignment in placement.assignments:
        if assignment.leaving:
            continue
        name = assignment.replica or _new_name(request.owner, assignment, taken)
        taken.add(name)
        key = replica_key(assignment.cluster, assignment.index)
        if assignment.role is scheduler.ReplicaRole.PINNED:
            placed[key] = decode_as(ModelReplica, request.observed[key])
            continue
        placed[key] = _replica(request, stable if assignment.demand else current, assignment, key, name)
    return placed


def replica_key(cluster: str, index: int) -> str:
    """Return the key of a replica among the deployment's children."""
    return f"replica-{cluster}-{index}"


def list_policy(request: DeploymentRequest, trial: Canary | None) -> Policy:
    """Return what a deployment asks of its replicas."""
    replicas, limit = request.owner.spec.replicas, compute_limits(request.owner)
    if trial is None:
        return Policy(replicas, Phase.ROLLOUT, limit.unavailable, limit.paused)
    status = trial.status
    return Policy(replicas, trial.phase, limit.unavailable, limit.paused, status.replicas, status.weight)


def list_slots(
    request: DeploymentRequest, placement: scheduler.Placement, placed: Placed, trial: Canary | None
) -> Iterator[Slot]:
    """Yield a slot for each assignment, and one for each replica that has to go."""
    names = {replica.metadata.name for replica in placed.values()}
    for assignment in placement.assignments:
        key = replica_key(assignment.cluster, assignment.index)
        names.add(assignment.replica)
        yield _slot(request, key, assignment, placed.get(key), trial)
    for key, child in sorted(list_replicas(request.observed).items()):
        if child["metadata"]["name"] not in names:
            yield Slot(
                key, None, _runs(child, trial), serves=serves(child), has_endpoint=_has_endpoint(child)
            )


def _new_name(owner: ModelDeployment, assignment: scheduler.Assignment, taken: set[str]) -> str:
    # Five hex digits can collide within a large deployment; then the name grows by one.
    digits = 5
    while (name := name_replica(owner.metadata.name, assignment.cluster, assignment.index, digits)) in taken:
        digits += 1
    return name


def _choices(
    request: DeploymentRequest, key: str, cluster: str
) -> tuple[ServingBackend, PodScheduler | None]:
    """Return the backend and the scheduler of a replica's pods: what it has, or its cluster's if it is new.

    So a change of the cluster's choice replaces no replica that serves.
    """
    if there := request.observed.get(key):
        backend, known = there["spec"].get("backend"), there["spec"].get("podScheduler")
        pod_scheduler = convert(known, PodScheduler) if known else None
        return ServingBackend(backend or ServingBackend.MODELPLANE), pod_scheduler
    for item in request.found("clusters"):
        if item["metadata"]["name"] == cluster:
            # Not remembered: few clusters get a new replica.
            with suppress(InvalidObject):
                spec = decode_as(InferenceCluster, item).spec
                return spec.serving_stack.backend, spec.pod_scheduler
    return ServingBackend.MODELPLANE, None


def _replica(
    request: DeploymentRequest,
    template: ReplicaTemplate,
    assignment: scheduler.Assignment,
    key: str,
    name: str,
) -> ModelReplica:
    owner, was_surge = request.owner, is_surge(request.observed.get(key))
    backend, pod_scheduler = _choices(request, key, assignment.cluster)
    placed = {engine.name: engine for engine in assignment.engines}
    cache = template.model_cache_name
    serving = template.serving_settings
    own = {
        labels.DEPLOYMENT: owner.metadata.name,
        labels.CLUSTER: assignment.cluster,
        labels.REPLICA_INDEX: str(assignment.index),
        labels.REVISION: revision(template),
    }
    return ModelReplica(
        metadata=ObjectMeta(
            name=name,
            namespace=owner.metadata.namespace,
            labels={**template.labels, **own},
            # Written as false too, because an annotation that is left out stays.
            annotations={labels.SURGE: str(assignment.surge).lower()}
            if assignment.surge or was_surge
            else {},
        ),
        spec=ModelReplicaSpec(
            cluster_name=assignment.cluster,
            model_cache_ref=LocalReference(name=cache) if cache else None,
            serving=None if serving == Serving() else serving,
            engines=tuple(_engine(engine, placed[engine.name]) for engine in template.engines),
            # Absent where it is the default, so that replicas of earlier versions stay as they are.
            backend=None if backend is ServingBackend.MODELPLANE else backend,
            pod_scheduler=pod_scheduler,
        ),
    )


def _engine(engine: Engine, placed: scheduler.PlacedEngine) -> PlacedEngine:
    members = (
        PlacedMember(
            role=member.role,
            worker=member.worker,
            template=member.template,
            node_pool_name=place.pool,
            device_requests=tuple(
                ResolvedRequest(
                    name=claim.name,
                    device_class_name=claim.device_class_name,
                    count=claim.count,
                    selectors=tuple(DeviceSelector(cel=selector) for selector in claim.selectors),
                )
                for claim in place.claims
            ),
        )
        for member, place in zip(engine.members, placed.members, strict=True)
    )
    return PlacedEngine(name=engine.name, copies=engine.copies, phase=engine.phase, members=tuple(members))


def _slot(
    request: DeploymentRequest,
    key: str,
    assignment: scheduler.Assignment,
    placed: ModelReplica | None,
    trial: Canary | None,
) -> Slot:
    gets = Runs.STABLE if assignment.demand else Runs.NEW
    child = request.observed.get(key)
    if child is None:
        return Slot(key, assignment.role, gets=gets, cause=assignment.cause, is_surge=assignment.surge)
    is_pinned = assignment.role is scheduler.ReplicaRole.PINNED
    return Slot(
        key,
        assignment.role,
        _runs(child, trial),
        gets,
        assignment.cause,
        is_surge=assignment.surge,
        is_same=placed is not None and not is_pinned and same_spec(placed, child),
        serves=serves(child),
        is_updating=is_updating(child),
        is_seen=find_reported_error(child) is None,
        is_draining=is_draining(child),
        share=(child["metadata"].get("annotations") or {}).get(labels.CANARY_WEIGHT),
    )


def _runs(replica: Object, trial: Canary | None) -> Runs:
    """Return the revision of a replica; without a canary, every one that is not new is as good as another."""
    if trial is None:
        return Runs.STABLE
    if has_revision(replica, trial.status.revision):
        return Runs.NEW
    return Runs.STABLE if has_revision(replica, trial.status.stable_revision) else Runs.OTHER


def _has_endpoint(replica: Object) -> bool:
    """Return True unless a replica reports that it has no endpoint; one without a report may have one."""
    said = condition_of(replica, ModelReplicaCondition.ROUTING_READY)
    generation = replica["metadata"].get("generation", 0)
    # A condition from the first withdrawal does not count for a second one.
    return said.get("status") != "False" or said.get("observedGeneration", generation) < generation
