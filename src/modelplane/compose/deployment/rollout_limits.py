"""Limits of a rollout (``spec.rollout``), in replicas."""

from fractions import Fraction
from math import ceil

import msgspec

from modelplane.api.fields.deployment.rollout_settings import RolloutSettings
from modelplane.api.model_deployment import ModelDeployment


class RolloutLimits(msgspec.Struct, frozen=True):
    """Limits of a rollout, in replicas of the whole fleet."""

    unavailable: int = 1
    surge: int = 0
    paused: bool = False


def compute_limits(deployment: ModelDeployment) -> RolloutLimits:
    """Return the limits of a deployment's rollouts. At least one is not zero."""
    settings = deployment.spec.rollout or RolloutSettings()
    replicas = deployment.spec.replicas
    surge = ceil(_share(settings.max_surge, replicas))
    unavailable = int(_share(settings.max_unavailable, replicas))
    # As a Deployment does: percentages of few replicas may both round to zero.
    return RolloutLimits(unavailable or int(not surge), surge, settings.paused)


def _share(count: int | str, replicas: int) -> Fraction:
    if isinstance(count, int):
        return Fraction(count)
    return Fraction(int(count.removesuffix("%")) * replicas, 100)
