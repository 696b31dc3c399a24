"""Slots of a deployment, from its replicas and their placement."""

from collections.abc import Iterator

from modelplane import scheduler
from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelReplicaCondition
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.cluster.reachability import reported_by
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.plan_slots import Policy
from modelplane.compose.deployment.replica_lifecycle import Phase, Runs, Slot
from modelplane.compose.deployment.rollout.canary import Canary, has_revision
from modelplane.compose.deployment.rollout.rollout_order import (
    is_draining,
    is_updating,
    limits,
    same_spec,
    serves,
)
from modelplane.compose.deployment.wanted_replicas import Wanted, replica_key
from modelplane.compose.readiness import condition_of


def list_policy(request: DeploymentRequest, trial: Canary | None) -> Policy:
    """Return what a deployment asks of its replicas."""
    replicas, limit = request.owner.spec.replicas, limits(request.owner)
    if trial is None:
        return Policy(replicas, Phase.ROLLOUT, limit.unavailable, limit.paused)
    status = trial.status
    return Policy(replicas, trial.phase, limit.unavailable, limit.paused, status.replicas, status.weight)


def list_slots(
    request: DeploymentRequest, placement: scheduler.Placement, wanted: Wanted, trial: Canary | None
) -> Iterator[Slot]:
    """Yield a slot for each assignment, and one for each replica that has to go."""
    names = {replica.metadata.name for replica in wanted.values()}
    for assignment in placement.assignments:
        key = replica_key(assignment.cluster, assignment.index)
        names.add(assignment.replica)
        yield _slot(request, key, assignment, wanted.get(key), trial)
    for key, child in sorted(request.observed.items()):
        if child["kind"] == kind_name(ModelReplica) and child["metadata"]["name"] not in names:
            yield Slot(
                key, None, _runs(child, trial), serves=serves(child), has_endpoint=_has_endpoint(child)
            )


def _slot(
    request: DeploymentRequest,
    key: str,
    assignment: scheduler.Assignment,
    wanted: ModelReplica | None,
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
        is_same=wanted is not None and not is_pinned and same_spec(wanted, child),
        serves=serves(child),
        is_updating=is_updating(child),
        is_seen=reported_by(child) is None,
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
