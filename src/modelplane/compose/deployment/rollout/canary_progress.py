"""Report about a canary: its state in a deployment's status, and its part of the condition Progressing."""

from typing import Any

from modelplane.api.conditions.reasons import ModelDeploymentCondition
from modelplane.api.conditions.reasons import ModelDeploymentReason as Reason
from modelplane.api.fields.deployment.rollout_settings import CanaryPhase, CanaryStatus
from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.deployment.rollout.canary import Canary, is_paused, timestamp

_TYPE = ModelDeploymentCondition.PROGRESSING


def condition(owner: ModelDeployment, trial: Canary, waits: str) -> Condition | None:
    """Return the condition Progressing; None if it is that of any rollout.

    ``waits`` is what the rollout waits for; empty if nothing.
    """
    if trial.unsupported:
        return false(_TYPE, Reason.CANARY_UNSUPPORTED, trial.unsupported)
    if trial.status.phase is CanaryPhase.ABORTED:
        return false(_TYPE, Reason.CANARY_ABORTED, _aborted(owner, trial))
    if not trial.has_begun or is_paused(owner):
        return None
    share = f"{trial.status.weight}% of the requests go to revision {trial.status.revision}"
    said = f"{step(owner, trial.status)}: {share}"
    holds = trial.holds if trial.serves else f"it waits for {waits}" if waits else "it waits for a replica"
    if holds:
        return false(_TYPE, Reason.CANARY_HOLDS, f"{said}. The step is not decided: {holds}")
    found = trial.status.message
    return true(_TYPE, Reason.CANARY_RUNNING, f"{said}: {found}" if found else said)


def with_unplaced(said: Condition, problem: str) -> Condition:
    """Return the condition Progressing with why stable replicas are not placed, if there is a reason."""
    if not problem:
        return said
    message = f"{said.message}. {problem}"
    return false(_TYPE, Reason.STABLE_NOT_FOUND if said.holds else said.reason, message)


def step(owner: ModelDeployment, status: CanaryStatus) -> str:
    """Return the present step and the number of steps."""
    settings = owner.spec.rollout.canary if owner.spec.rollout else None
    steps = len(settings.steps) if settings else status.step
    return f"canary step {status.step} of {steps}"


def _aborted(owner: ModelDeployment, trial: Canary) -> str:
    name, status = f"md/{owner.metadata.name} -n {owner.metadata.namespace}", trial.status
    said = f"the canary of revision {status.revision} was aborted in step {status.step}: {status.message}"
    if not trial.has_older:
        return (
            f"{said}. No replica has an earlier revision, so those of this one serve. Correct the template, "
            f"or return to the one before with `modelplane rollout undo {name}`"
        )
    return (
        f"{said}. Replicas of this revision get no requests, and no other replica is updated. Correct the "
        f"template, return to the one before with `modelplane rollout undo {name}`, or try it again with "
        f"`modelplane rollout resume {name}`"
    )


def wire(status: CanaryStatus) -> dict[str, Any]:
    """Return the state as a status has it."""
    told: dict[str, Any] = {
        "phase": str(status.phase),
        "revision": status.revision,
        "stableRevision": status.stable_revision,
        "step": status.step,
        "weight": status.weight,
        "replicas": status.replicas,
        "message": status.message,
    }
    if status.step_start_time is not None:
        told["stepStartTime"] = timestamp(status.step_start_time)
    if status.abort_time is not None:
        told["abortTime"] = timestamp(status.abort_time)
    return told
