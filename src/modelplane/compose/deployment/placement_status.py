"""Status of a placement: how many replicas are placed and serve, what they cost, and why some are missing."""

from collections.abc import Sequence
from typing import Any

from modelplane import scheduler
from modelplane.api import money
from modelplane.api.conditions.reasons import ModelDeploymentCondition as Type
from modelplane.api.conditions.reasons import ModelDeploymentReason as Reason
from modelplane.api.meta import Object
from modelplane.compose.conditions import READY, Condition, false, true
from modelplane.compose.deployment import fleet_snapshot
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.rollout.rollout_order import Rollout, is_draining, is_updating, serves
from modelplane.compose.deployment.wanted_replicas import replica_key
from modelplane.compose.quota import scheduler_quotas
from modelplane.compose.readiness import condition_of, holds


def counts(staying: Sequence[scheduler.Assignment], ready: int, updated: int) -> dict[str, int]:
    """Return the counts of replicas that stay; of those on spot pools, only if there are any."""
    found = {"total": len(staying), "ready": ready, "updated": updated}
    on_spot = sum(bool(assignment.spot_pools) for assignment in staying)
    return {**found, "spot": on_spot} if on_spot else found


def cost(placement: scheduler.Placement) -> dict[str, Any]:
    """Return the cost of all replicas; nothing without prices."""
    if not placement.currency:
        return {}
    status: dict[str, Any] = {"currency": placement.currency, "perHour": money.format_amount(placement.price)}
    if placement.unpriced:
        status["unpricedReplicas"] = placement.unpriced
    return {"cost": status}


def scheduled(request: DeploymentRequest, placement: scheduler.Placement) -> Condition:
    """Return the condition that every replica has a place, or why not."""
    type_ = Type.REPLICAS_SCHEDULED
    wanted = request.owner.spec.replicas
    staying = [placed for placed in placement.assignments if not placed.leaving and not placed.surge]
    if wanted and not placement.diagnosis.clusters:
        return false(type_, Reason.NO_CLUSTERS, "the fleet has no InferenceCluster: register one")
    problem = placement.diagnosis.describe()
    if len(staying) < wanted and placement.stable_problem:
        message = f"{len(staying)} of {wanted} replicas placed; {placement.stable_problem}"
        return false(type_, Reason.STABLE_UNPLACED, message)
    if len(staying) < wanted:
        return false(type_, scheduler_quotas.reason(placement.diagnosis), problem)
    if wanted and not any(replica_key(a.cluster, a.index) in request.observed for a in staying):
        return false(type_, Reason.SCHEDULING, f"{len(staying)} of {wanted} replicas are being created")
    on = ", ".join(sorted({assignment.cluster for assignment in staying}))
    message = f"{len(staying)} of {wanted} replicas placed" + (f", on {on}" if on else "")
    return true(type_, Reason.REPLICAS_CREATED, f"{message}; {problem}" if problem else message)


def template_accepted(request: DeploymentRequest, placement: scheduler.Placement) -> tuple[Condition, ...]:
    """Return the condition that the clusters of all replicas accept their pods, if one ever did not.

    Replicas that run stay, although new ones are not placed there.
    """
    type_ = Type.TEMPLATE_ACCEPTED
    template = fleet_snapshot.deployment(request.owner, None)
    names = {assignment.cluster for assignment in placement.assignments}
    found = (
        fleet_snapshot.cluster(cluster)
        for cluster in request.found("clusters")
        if cluster["metadata"]["name"] in names
    )
    refusing = {
        cluster.name: rejected.detail
        for cluster in found
        if (rejected := scheduler.check_pod_keys(template, cluster))
    }
    if refusing:
        name, parts = min(refusing.items())
        message = (
            f'InferenceCluster "{name}" does not accept {parts} of the pods: replicas there stay as they are '
            "until the template has no such part; the platform team can accept labels and annotations in "
            "spec.podKeys.accept of the InferenceCluster"
        )
        return (false(type_, Reason.POD_NOT_ACCEPTED, message),)
    if any(condition.type == type_ for condition in request.owner.status.conditions):
        return (true(type_, Reason.POD_ACCEPTED, "the clusters of all replicas accept the pods"),)
    return ()


def ready_replicas(
    request: DeploymentRequest, placement: scheduler.Placement, rollout: Rollout
) -> tuple[int, Condition]:
    """Return how many replicas are ready, and the condition that all are."""
    type_ = Type.REPLICAS_READY
    wanted = request.owner.spec.replicas
    staying = [assignment for assignment in placement.assignments if not assignment.leaving]
    keys = [replica_key(placed.cluster, placed.index) for placed in staying]
    observed = [request.observed.get(key) for key in keys]
    behind = sum(key in request.observed and key not in rollout.updated for key in keys)
    silent = fleet_snapshot.unreachable(
        request.found("clusters"), request.observed.values(), {placed.cluster for placed in staying}
    )
    known = [replica for each, replica in zip(staying, observed, strict=True) if each.cluster not in silent]
    ready = sum(
        1 for replica in known if replica is not None and holds(replica, READY) and not is_draining(replica)
    )
    message = f"{ready} of {wanted} replicas ready"
    if serving := len(_serving_until_replaced(request, placement)):
        message += f", and {serving} more until replaced"
    if ready >= wanted and not behind:
        return ready, true(type_, Reason.ALL_REPLICAS_READY, message)
    if not staying and not serving:
        return 0, false(type_, Reason.NO_REPLICAS_SCHEDULED, "no replica is placed")
    if silent:
        name, cause = min(silent.items())
        message += f'; cannot observe the replicas on cluster "{name}", which may still serve: {cause}'
        return ready, false(type_, Reason.CLUSTER_UNREACHABLE, message)
    if rollout.waiting:
        message += f"; {len(rollout.waiting)} waiting to be updated"
    elif behind:
        message += f"; {behind} not updated yet"
    trouble = next(
        (
            f'replica "{replica["metadata"]["name"]}": {condition_of(replica, "ModelReady")["message"]}'
            for replica in observed
            if replica is not None
            and not holds(replica, READY)
            and condition_of(replica, "ModelReady").get("message")
        ),
        "",
    )
    reason = Reason.UPDATING if behind else Reason.MODEL_STARTING
    return ready, false(type_, reason, f"{message}; {trouble}" if trouble else message)


def missing(request: DeploymentRequest, placement: scheduler.Placement) -> int:
    """Return how many replicas leave, have no replacement yet, and do not serve or are being updated.

    One that is being updated serves until its cluster has applied the edit, so it is not counted on. Nor is
    one that is withdrawn now without a replacement.
    """
    leaving = len(placement.dropped) + sum(assignment.leaving for assignment in placement.assignments)
    there = sum(not (assignment.leaving or assignment.surge) for assignment in placement.assignments)
    wanting = min(leaving, request.owner.spec.replicas - there)
    serving = _serving_until_replaced(request, placement)
    return max(0, wanting - sum(not is_updating(item) for item in serving))


def _serving_until_replaced(request: DeploymentRequest, placement: scheduler.Placement) -> tuple[Object, ...]:
    """Return the replicas that leave and serve until then."""
    outside = fleet_snapshot.outside(request.found("clusters"), request.owner.replica_template().regions)
    lost = request.facts.watched.lost if request.facts.watched else {}
    leaving = (
        request.observed.get(replica_key(assignment.cluster, assignment.index))
        for assignment in placement.assignments
        if assignment.leaving and assignment.cluster not in outside and assignment.cluster not in lost
    )
    return tuple(replica for replica in leaving if replica is not None and serves(replica))
