"""Canary of a deployment, as its page shows it."""

from dataclasses import dataclass

from modelplane.api.conditions.reasons import ModelDeploymentCondition, ModelDeploymentReason
from modelplane.api.fields.deployment.canary_settings import CanaryPhase
from modelplane.api.meta import Object
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.readiness import condition_of

_VERDICTS = {
    CanaryPhase.PROMOTED: "Promoted",
    CanaryPhase.ABORTED: "Aborted",
}


@dataclass(frozen=True, slots=True)
class ShownCanary:
    """State of a canary in words; ``note`` has the answers or the cause."""

    step: str
    weight: str
    revision: str
    verdict: str
    note: str
    well: bool


def shown_canary(item: Object) -> ShownCanary | None:
    """Return the canary of a deployment; None without one, or if the deployment cannot be read."""
    try:
        owner = decode_as(ModelDeployment, item)
    except InvalidObject:
        return None
    settings = owner.spec.rollout.canary if owner.spec.rollout else None
    status = owner.status.rollout.canary if owner.status.rollout else None
    if settings is None or status is None:
        return None
    said = condition_of(item, ModelDeploymentCondition.PROGRESSING)
    holds = said.get("reason") == ModelDeploymentReason.CANARY_HOLDS
    began = status.step_start_time is not None
    running = ("Held" if holds else "Undecided") if began else "Waits for its replicas"
    is_running = status.phase is CanaryPhase.RUNNING
    return ShownCanary(
        step=f"{status.step} of {len(settings.steps)}",
        weight=f"{status.weight}%" if began else "none yet" if is_running else "none",
        revision=status.revision,
        verdict=_VERDICTS.get(status.phase, running),
        note=str(said.get("message", "")) if holds else status.message,
        well=status.phase is not CanaryPhase.ABORTED and not holds,
    )
