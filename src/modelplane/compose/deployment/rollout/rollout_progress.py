"""Progress of a rollout: the counts in a deployment's status, and its condition Progressing.

A rollout progresses when a replica gets the current template, or serves with it. The time of the last
progress is in the status. No clock is read: the time is that of the request, and offline there is none.
"""

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from modelplane import scheduler
from modelplane.api.conditions.reasons import ModelDeploymentCondition, ModelReplicaCondition
from modelplane.api.conditions.reasons import ModelDeploymentReason as Reason
from modelplane.api.fields.deployment.rollout_settings import RolloutSettings, RolloutStatus
from modelplane.api.listing import number_of
from modelplane.api.meta import Object
from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.plan_slots import Plans
from modelplane.compose.deployment.rollout import canary_progress
from modelplane.compose.deployment.rollout.canary import Canary
from modelplane.compose.deployment.rollout.rollout_order import is_updating, revision, serves
from modelplane.compose.deployment.wanted_replicas import replica_key
from modelplane.compose.readiness import condition_of

_TYPE = ModelDeploymentCondition.PROGRESSING


class Progress(msgspec.Struct, frozen=True):
    """Report of a deployment about its rollout; nothing without ``spec.rollout``."""

    status: dict[str, Any]
    conditions: tuple[Condition, ...] = ()
    again_in_s: float | None = None
    """Seconds until the deadline, if it is ahead."""


def progress(
    request: DeploymentRequest,
    placement: scheduler.Placement,
    plans: Plans,
    trial: Canary | None,
    blocked: str,
) -> Progress:
    """Return the progress of a rollout.

    ``blocked`` is why replicas beside a canary are not placed; empty if none is missing.
    """
    owner = request.owner
    settings = owner.spec.rollout
    if settings is None:
        return Progress({})
    staying = [assignment for assignment in placement.assignments if not assignment.leaving]
    regular = [
        replica_key(assignment.cluster, assignment.index) for assignment in staying if not assignment.surge
    ]
    updated = [key for key in regular if plans[key].is_updated]
    counts = RolloutStatus(
        revision=revision(owner.replica_template()),
        updated_replicas=len(updated),
        available_replicas=sum(serves(request.observed[key]) for key in updated),
        surge_replicas=len(staying) - len(regular),
        canary=trial.status if trial and not trial.unsupported else None,
    )
    behind = any(key in request.observed and not plans[key].is_updated for key in regular)
    complete = not behind and (
        counts.available_replicas >= owner.spec.replicas or _was_complete(owner, counts)
    )
    since = None if settings.paused else _last_progress(owner, counts, request.now, complete=complete)
    waits = next(_waits_for(request, placement, staying, blocked), "")
    # A step of a canary takes its time.
    is_timed = trial is None or not trial.has_begun
    left_s = _left_s(settings, since, request.now, complete=complete) if is_timed else None
    said = f"{counts.updated_replicas} of {owner.spec.replicas} replicas updated"
    if trial is not None and trial.is_running and not trial.has_begun:
        said = f"{said} for {canary_progress.step(owner, trial.status)}"
    of_canary = canary_progress.condition(owner, trial, waits) if trial else None
    condition = of_canary or _condition(owner, said, waits, since, complete=complete, is_late=left_s == 0)
    condition = canary_progress.with_unplaced(condition, blocked)
    return Progress({"rollout": _wire(counts, since)}, (condition,), left_s or None)


def _said_before(owner: ModelDeployment) -> str:
    return next((condition.reason for condition in owner.status.conditions if condition.type == _TYPE), "")


def _was_complete(owner: ModelDeployment, counts: RolloutStatus) -> bool:
    """Return True if the rollout of the revision ended: a replica that fails later does not reopen it."""
    before = owner.status.rollout
    return (
        before is not None
        and before.revision == counts.revision
        and _said_before(owner) == Reason.ROLLOUT_COMPLETE
    )


def _last_progress(
    owner: ModelDeployment, counts: RolloutStatus, now: dt.datetime | None, *, complete: bool
) -> dt.datetime | None:
    before = owner.status.rollout
    if before is None or before.last_progress_time is None or before.revision != counts.revision:
        return now
    # An edit of a cluster's pools can reopen a rollout of the same revision.
    reopened = not complete and _said_before(owner) == Reason.ROLLOUT_COMPLETE
    moved = _step(counts) != _step(before) or any(
        getattr(counts, name) > getattr(before, name)
        for name in ("updated_replicas", "available_replicas", "surge_replicas")
    )
    return now or before.last_progress_time if moved or reopened else before.last_progress_time


def _step(counts: RolloutStatus) -> tuple[object, ...]:
    """Return the part of a canary's state that changes when the canary progresses."""
    state = counts.canary
    return (state.phase, state.step, state.step_start_time is None) if state else ()


def _left_s(
    settings: RolloutSettings, since: dt.datetime | None, now: dt.datetime | None, *, complete: bool
) -> float | None:
    """Return the seconds until the deadline, zero if it has passed; None if there is none."""
    if complete or since is None or now is None:
        return None
    return max(0.0, settings.progress_deadline_seconds - (now - since).total_seconds())


def _wire(counts: RolloutStatus, since: dt.datetime | None) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "revision": counts.revision,
        "updatedReplicas": counts.updated_replicas,
        "availableReplicas": counts.available_replicas,
        "surgeReplicas": counts.surge_replicas,
    }
    if since is not None:
        wire["lastProgressTime"] = _time(since)
    if counts.canary is not None:
        wire["canary"] = canary_progress.wire(counts.canary)
    return wire


def _time(time: dt.datetime) -> str:
    return time.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(
    owner: ModelDeployment,
    said: str,
    waits: str,
    since: dt.datetime | None,
    *,
    complete: bool,
    is_late: bool,
) -> Condition:
    name = f"md/{owner.metadata.name} -n {owner.metadata.namespace}"
    if owner.spec.rollout and owner.spec.rollout.paused:
        message = f"{said}. The rollout is paused: continue with `modelplane rollout resume {name}`"
        return false(_TYPE, Reason.ROLLOUT_PAUSED, message)
    if complete:
        return true(_TYPE, Reason.ROLLOUT_COMPLETE, said)
    waiting = f"{said}, waits for {waits}" if waits else said
    if is_late and since is not None:
        return false(
            _TYPE,
            Reason.PROGRESS_DEADLINE_EXCEEDED,
            f"{waiting}. No progress since {_time(since)}. Replicas that are not updated stay as they are. "
            f"Correct the template, or return to the one before with `modelplane rollout undo {name}`",
        )
    return true(_TYPE, Reason.REPLICAS_UPDATING, waiting)


def _waits_for(
    request: DeploymentRequest,
    placement: scheduler.Placement,
    staying: Iterable[scheduler.Assignment],
    blocked: str,
) -> Iterator[str]:
    """Yield what a rollout waits for, the first cause first."""
    for assignment in staying:
        replica = request.observed.get(replica_key(assignment.cluster, assignment.index))
        if replica is not None and (not serves(replica) or is_updating(replica)):
            kind = "surge replica" if assignment.surge else "replica"
            cause = _trouble(replica)
            yield f'{kind} "{replica["metadata"]["name"]}" on cluster "{assignment.cluster}": {cause}'
    if placement.surge_problem:
        yield f"capacity for a surge replica, or a larger maxUnavailable: {placement.surge_problem}"
    missing = request.owner.spec.replicas - sum(not assignment.surge for assignment in staying)
    if missing > 0 and not blocked:
        yield f"capacity for {number_of(missing, 'replica')}"


def _trouble(replica: Object) -> str:
    said = [condition_of(replica, type_) for type_ in _OF_REPLICA]
    return next((item["message"] for item in said if item.get("message")), "it has not reported yet")


_OF_REPLICA = (ModelReplicaCondition.MODEL_READY, ModelReplicaCondition.MODEL_ACCEPTED)
