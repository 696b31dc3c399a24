"""Progress of a rollout or canary: the counts in a deployment's status, and its condition Progressing.

A rollout progresses when a replica gets the current template, or serves with it. The time of the last
progress is in the status. No clock is read: the time is that of the request, and offline there is none.
"""

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from modelplane import scheduler
from modelplane.api.conditions.reasons import (
    ModelDeploymentCondition,
    ModelDeploymentReason as Reason,
    ModelReplicaCondition,
)
from modelplane.api.fields.deployment.rollout_settings import (
    CanaryPhase,
    CanaryStatus,
    RolloutSettings,
    RolloutStatus,
)
from modelplane.api.listing import count_noun
from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.deployment.canary import Canary, is_paused, timestamp
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.placed_replicas import replica_key
from modelplane.compose.deployment.replica_lifecycle import Plans
from modelplane.compose.deployment.replica_state import is_updating, serves
from modelplane.compose.deployment.revisions import revision
from modelplane.compose.readiness import condition_of

_TYPE = ModelDeploymentCondition.PROGRESSING


class Progress(msgspec.Struct, frozen=True):
    """Report of a deployment about its rollout; nothing without ``spec.rollout``."""

    status: dict[str, Any]
    conditions: tuple[Condition, ...] = ()
    again_in_s: float | None = None
    """Seconds until the deadline, if it is ahead."""


_OF_REPLICA = (ModelReplicaCondition.MODEL_READY, ModelReplicaCondition.MODEL_ACCEPTED)


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
    left_s = _measure_left_s(settings, since, request.now, complete=complete) if is_timed else None
    said = f"{counts.updated_replicas} of {owner.spec.replicas} replicas updated"
    if trial is not None and trial.is_running and not trial.has_begun:
        said = f"{said} for {_canary_step(owner, trial.status)}"
    of_canary = _canary_condition(owner, trial, waits) if trial else None
    condition = of_canary or _condition(owner, said, waits, since, complete=complete, is_late=left_s == 0)
    if blocked:
        reason = Reason.STABLE_NOT_FOUND if condition.holds else condition.reason
        condition = false(_TYPE, reason, f"{condition.message}. {blocked}")
    return Progress({"rollout": _wire(counts, since)}, (condition,), left_s or None)


def _canary_condition(owner: ModelDeployment, trial: Canary, waits: str) -> Condition | None:
    """Return the condition Progressing; None if it is that of any rollout.

    ``waits`` is what the rollout waits for; empty if nothing.
    """
    if trial.unsupported:
        return false(_TYPE, Reason.CANARY_UNSUPPORTED, trial.unsupported)
    if trial.status.phase is CanaryPhase.ABORTED:
        return false(_TYPE, Reason.CANARY_ABORTED, _aborted(owner, trial))
    if not trial.has_begun or is_paused(owner):
        return None
    share = f"{trial.status.weight}% of requests go to revision {trial.status.revision}"
    said = f"{_canary_step(owner, trial.status)}: {share}"
    holds = trial.holds if trial.serves else f"waiting for {waits}" if waits else "waiting for a replica"
    if holds:
        return false(_TYPE, Reason.CANARY_HOLDS, f"{said}. The step is undecided: {holds}")
    found = trial.status.message
    return true(_TYPE, Reason.CANARY_RUNNING, f"{said}: {found}" if found else said)


def _canary_step(owner: ModelDeployment, status: CanaryStatus) -> str:
    settings = owner.spec.rollout.canary if owner.spec.rollout else None
    steps = len(settings.steps) if settings else status.step
    return f"canary step {status.step} of {steps}"


def _aborted(owner: ModelDeployment, trial: Canary) -> str:
    name, status = f"md/{owner.metadata.name} -n {owner.metadata.namespace}", trial.status
    said = f"the canary of revision {status.revision} was aborted in step {status.step}: {status.message}"
    if not trial.has_older:
        return (
            f"{said}. No replicas of an earlier revision exist, so the replicas of this revision serve. "
            f"Correct the template, or roll back with `modelplane rollout undo {name}`"
        )
    return (
        f"{said}. Replicas of this revision receive no requests, and no more replicas are updated. Correct "
        f"the template, roll back with `modelplane rollout undo {name}`, or retry with `modelplane rollout "
        f"resume {name}`"
    )


def _said_before(owner: ModelDeployment) -> str:
    return next((condition.reason for condition in owner.status.conditions if condition.type == _TYPE), "")


def _was_complete(owner: ModelDeployment, counts: RolloutStatus) -> bool:
    """Return True if the rollout of the revision ended: a replica that fails later does not reopen it."""
    before = owner.status.rollout
    is_same = before is not None and before.revision == counts.revision
    return is_same and _said_before(owner) == Reason.ROLLOUT_COMPLETE


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


def _measure_left_s(
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
        wire["lastProgressTime"] = timestamp(since)
    if counts.canary is not None:
        told: dict[str, Any] = {
            "phase": str(counts.canary.phase),
            "revision": counts.canary.revision,
            "stableRevision": counts.canary.stable_revision,
            "step": counts.canary.step,
            "weight": counts.canary.weight,
            "replicas": counts.canary.replicas,
            "message": counts.canary.message,
        }
        if counts.canary.step_start_time is not None:
            told["stepStartTime"] = timestamp(counts.canary.step_start_time)
        if counts.canary.abort_time is not None:
            told["abortTime"] = timestamp(counts.canary.abort_time)
        wire["canary"] = told
    return wire


def _condition(
    owner: ModelDeployment, said: str, waits: str, since: dt.datetime | None, *, complete: bool, is_late: bool
) -> Condition:
    name = f"md/{owner.metadata.name} -n {owner.metadata.namespace}"
    if owner.spec.rollout and owner.spec.rollout.paused:
        message = f"{said}. The rollout is paused: to continue, run `modelplane rollout resume {name}`"
        return false(_TYPE, Reason.ROLLOUT_PAUSED, message)
    if complete:
        return true(_TYPE, Reason.ROLLOUT_COMPLETE, said)
    waiting = f"{said}, waiting for {waits}" if waits else said
    if is_late and since is not None:
        return false(
            _TYPE,
            Reason.PROGRESS_DEADLINE_EXCEEDED,
            f"{waiting}. No progress since {timestamp(since)}. Replicas that are not updated yet don't "
            f"change. Correct the template, or roll back with `modelplane rollout undo {name}`",
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
            said = (condition_of(replica, type_).get("message") for type_ in _OF_REPLICA)
            cause = next(filter(None, said), "no status yet")
            yield f'{kind} "{replica["metadata"]["name"]}" on cluster "{assignment.cluster}": {cause}'
    if placement.surge_problem:
        yield f"capacity for a surge replica, or a larger maxUnavailable: {placement.surge_problem}"
    missing = request.owner.spec.replicas - sum(not assignment.surge for assignment in staying)
    if missing > 0 and not blocked:
        yield f"capacity for {count_noun(missing, 'replica')}"
