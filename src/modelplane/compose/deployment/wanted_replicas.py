"""The replicas that a placement asks for, as ModelReplicas by key."""

from typing import TypeAlias

import msgspec

from modelplane import scheduler
from modelplane.api import labels
from modelplane.api.fields.cluster.devices import DeviceSelector
from modelplane.api.fields.pods.engines import Serving, ServingBackend
from modelplane.api.fields.pods.pod_scheduler import PodScheduler
from modelplane.api.meta import LocalReference, ObjectMeta
from modelplane.api.model_deployment import Engine, ModelDeployment, ReplicaTemplate
from modelplane.api.model_replica import (
    ModelReplica,
    ModelReplicaSpec,
    PlacedEngine,
    PlacedMember,
    ResolvedRequest,
)
from modelplane.api.names import name_replica
from modelplane.api.schema.decode import convert, decode_as
from modelplane.compose.deployment import fleet_snapshot
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.rollout.canary import Canary
from modelplane.compose.deployment.rollout.rollout_order import is_surge, revision
from modelplane.compose.deployment.rollout.stable_template import stable_template

Wanted: TypeAlias = dict[str, ModelReplica]
"""The replicas that are to exist, by key."""


def wanted_replicas(
    request: DeploymentRequest, placement: scheduler.Placement, trial: Canary | None
) -> Wanted:
    """Return the replicas of a placement that are not leaving; those that are pinned are as observed."""
    current = request.owner.replica_template()
    stable = stable_template(request.owner, trial, request.observed) or current
    taken = {assignment.replica for assignment in placement.assignments if assignment.replica}
    wanted: Wanted = {}
    for assignment in placement.assignments:
        if assignment.leaving:
            continue
        name = assignment.replica or _new_name(request.owner, assignment, taken)
        taken.add(name)
        key = replica_key(assignment.cluster, assignment.index)
        if assignment.role is scheduler.ReplicaRole.PINNED:
            wanted[key] = decode_as(ModelReplica, request.observed[key])
            continue
        backend = _backend(request, key, assignment.cluster)
        was_surge = is_surge(request.observed.get(key))
        template = stable if assignment.demand else current
        replica = _replica(request.owner, template, assignment, name, backend, was_surge=was_surge)
        scheduled = _pod_scheduler(request, key, assignment.cluster)
        wanted[key] = (
            msgspec.structs.replace(
                replica, spec=msgspec.structs.replace(replica.spec, pod_scheduler=scheduled)
            )
            if scheduled
            else replica
        )
    return wanted


def replica_key(cluster: str, index: int) -> str:
    """Return the key of a replica among the deployment's children."""
    return f"replica-{cluster}-{index}"


def _new_name(owner: ModelDeployment, assignment: scheduler.Assignment, taken: set[str]) -> str:
    # Five hex digits can collide within a large deployment; then the name grows by one.
    digits = 5
    while (name := name_replica(owner.metadata.name, assignment.cluster, assignment.index, digits)) in taken:
        digits += 1
    return name


def _backend(request: DeploymentRequest, key: str, cluster: str) -> ServingBackend:
    """Return what a replica runs with: what it has, or the choice of its cluster if it is new.

    So a change of the choice replaces no replica that serves.
    """
    if there := request.observed.get(key):
        return ServingBackend(there["spec"].get("backend", ServingBackend.MODELPLANE))
    clusters = (item for item in request.found("clusters") if item["metadata"]["name"] == cluster)
    return next(map(fleet_snapshot.backend, clusters), ServingBackend.MODELPLANE)


def _pod_scheduler(request: DeploymentRequest, key: str, cluster: str) -> PodScheduler | None:
    """Return the scheduler of a replica's pods: what it has, or that of its cluster if it is new."""
    if there := request.observed.get(key):
        known = there["spec"].get("podScheduler")
        return convert(known, PodScheduler) if known else None
    clusters = (item for item in request.found("clusters") if item["metadata"]["name"] == cluster)
    return next(map(fleet_snapshot.pod_scheduler, clusters), None)


def _replica(
    owner: ModelDeployment,
    template: ReplicaTemplate,
    assignment: scheduler.Assignment,
    name: str,
    backend: ServingBackend,
    *,
    was_surge: bool,
) -> ModelReplica:
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
        ),
    )


def _engine(engine: Engine, placed: scheduler.PlacedEngine) -> PlacedEngine:
    members = (
        PlacedMember(
            role=member.role,
            worker=member.worker,
            template=member.template,
            node_pool_name=place.pool,
            device_requests=tuple(map(_claim, place.claims)),
        )
        for member, place in zip(engine.members, placed.members, strict=True)
    )
    return PlacedEngine(name=engine.name, copies=engine.copies, phase=engine.phase, members=tuple(members))


def _claim(claim: scheduler.ResolvedRequest) -> ResolvedRequest:
    return ResolvedRequest(
        name=claim.name,
        device_class_name=claim.device_class_name,
        count=claim.count,
        selectors=tuple(DeviceSelector(cel=selector) for selector in claim.selectors),
    )
