"""Status of a placement: how many replicas are placed and serve, what they cost, and why some are missing."""

from collections.abc import Sequence
from typing import Any

from modelplane import scheduler
from modelplane.api import money
from modelplane.api.conditions.reasons import (
    ModelDeploymentCondition as Type,
    ModelDeploymentReason as Reason,
)
from modelplane.api.listing import listing
from modelplane.compose.conditions import READY, Condition, false, state_unless_new, true
from modelplane.compose.deployment import scheduler_input, scheduler_quotas
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.placed_replicas import replica_key
from modelplane.compose.deployment.replica_lifecycle import Plans, Slot
from modelplane.compose.deployment.replica_state import is_draining
from modelplane.compose.readiness import condition_of, holds


def counts(staying: Sequence[scheduler.Assignment], ready: int, updated: int) -> dict[str, int]:
    """Return the counts of replicas that stay; of those on spot pools, only if there are any."""
    on_spot = sum(bool(assignment.spot_pools) for assignment in staying)
    spot = {"spot": on_spot} if on_spot else {}
    return {"total": len(staying), "ready": ready, "updated": updated, **spot}


def cost(placement: scheduler.Placement) -> dict[str, Any]:
    """Return the cost of all replicas; nothing without prices."""
    if not placement.currency:
        return {}
    unpriced = {"unpricedReplicas": placement.unpriced} if placement.unpriced else {}
    per_hour = money.format_amount(placement.price)
    return {"cost": {"currency": placement.currency, "perHour": per_hour, **unpriced}}


def scheduled(request: DeploymentRequest, placement: scheduler.Placement, blocked: str) -> Condition:
    """Return the condition that every replica has a place, or why not.

    ``blocked`` is why replicas beside a canary are not placed; empty if none is missing.
    """
    type_ = Type.REPLICAS_SCHEDULED
    wanted = request.owner.spec.replicas
    staying = [placed for placed in placement.assignments if not placed.leaving and not placed.surge]
    if wanted and not placement.diagnosis.clusters:
        return false(type_, Reason.NO_CLUSTERS, "no InferenceCluster is registered: register one")
    problem = placement.diagnosis.describe()
    if len(staying) < wanted and blocked:
        return false(type_, Reason.STABLE_UNPLACED, f"{len(staying)} of {wanted} replicas placed; {blocked}")
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
    type_ = Type.SETTINGS_SUPPORTED
    template = scheduler_input.read_deployment(request.owner, None)
    names = {assignment.cluster for assignment in placement.assignments}
    # A fleet has many more clusters than a deployment.
    used = [item for item in request.found("clusters") if item["metadata"]["name"] in names]
    refusing = {
        cluster.name: rejected.detail
        for cluster in map(scheduler_input.read_cluster, used)
        if (rejected := scheduler.check_pod_keys(template, cluster))
    }
    if refusing:
        name, parts = min(refusing.items())
        message = (
            f'InferenceCluster "{name}" does not accept {parts} of the pods: replicas there don\'t change '
            "until you remove these parts from the template; the platform team can accept labels and "
            "annotations in spec.podKeys.accept of the InferenceCluster"
        )
        return (false(type_, Reason.POD_REFUSED, message),)
    accepted = true(type_, Reason.POD_ACCEPTED, "the clusters of all replicas accept the pods")
    return state_unless_new(accepted, request.owner.status)


def summary(staying: Sequence[scheduler.Assignment], ready: int, desired: int) -> dict[str, str]:
    """Return the numbers of replicas and the names of their clusters, as `kubectl get` shows them."""
    clusters = listing(sorted({assignment.cluster for assignment in staying}))
    return {"ready": f"{ready}/{desired}", **({"clusters": clusters} if clusters else {})}


_BROKEN = (Reason.CRASH_LOOP, Reason.IMAGE_PULL)
"""Reasons of a replica that are those of its deployment."""


def ready_replicas(
    request: DeploymentRequest, placement: scheduler.Placement, slots: Sequence[Slot], plans: Plans
) -> tuple[int, Condition]:
    """Return how many replicas are ready, and the condition that all are."""
    type_ = Type.REPLICAS_READY
    wanted = request.owner.spec.replicas
    staying = [assignment for assignment in placement.assignments if not assignment.leaving]
    keys = [replica_key(placed.cluster, placed.index) for placed in staying]
    observed = [request.observed.get(key) for key in keys]
    behind = sum(key in request.observed and not plans[key].is_updated for key in keys)
    silent = scheduler_input.find_unreachable(
        request.found("clusters"), request.observed.values(), {placed.cluster for placed in staying}
    )
    known = [
        replica for placed, replica in zip(staying, observed, strict=True) if placed.cluster not in silent
    ]
    ready = sum(
        replica is not None and holds(replica, READY) and not is_draining(replica) for replica in known
    )
    message = f"{ready} of {wanted} replicas ready"
    if serving := sum(slot.serves_until_replaced for slot in slots):
        old = (
            "1 old replica serves until it is"
            if serving == 1
            else f"{serving} old replicas serve until they are"
        )
        message += f"; {old} replaced"
    if ready >= wanted and not behind:
        return ready, true(type_, Reason.ALL_REPLICAS_READY, message)
    if not staying and not serving:
        return 0, false(type_, Reason.NO_REPLICAS_SCHEDULED, "no replicas are placed")
    if silent:
        name, cause = min(silent.items())
        message += f'; cannot observe the replicas on cluster "{name}", which can still be serving: {cause}'
        return ready, false(type_, Reason.CLUSTER_UNREACHABLE, message)
    if waiting := sum(plan.waits for plan in plans.values()):
        message += f"; {waiting} waiting to be updated"
    elif behind:
        message += f"; {behind} not updated yet"
    troubled = next(
        (
            (f'{message}; replica "{replica["metadata"]["name"]}": {model["message"]}', model["reason"])
            for replica in observed
            if replica is not None
            and not holds(replica, READY)
            and (model := condition_of(replica, "ModelReady")).get("message")
        ),
        None,
    )
    reason = Reason.UPDATING if behind else Reason.MODEL_STARTING
    if troubled:
        message, word = troubled
        reason = next((broken for broken in _BROKEN if broken == word), reason)
    return ready, false(type_, reason, message)
