"""Decision: the number of replicas of a deployment, from evidence, bounds and targets.

More replicas at once, fewer after a window, none after a longer one. The number follows from the load and not
from the former number, so replicas that are starting count as capacity. Without a sample nothing changes.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from modelplane.api.listing import number_of
from modelplane.deciders.autoscaling.autoscaler_settings import Settings
from modelplane.deciders.autoscaling.evidence import Evidence, Sample
from modelplane.deciders.autoscaling.replica_demand import Demand, format_number, measure_demand

LOWER_EVERY_S = 15.0
"""Seconds between two steps down; one step is a tenth of the replicas, at least one."""

_MOST_FACTOR, _MOST_STEP = 2, 4
"""Growth in a minute: to twice the number or by four replicas, whichever is more."""


class Outcome(StrEnum):
    """Outcome of a decision."""

    STEADY = "Steady"
    """The number is as the load needs it."""
    UP = "ScaledUp"
    DOWN = "ScaledDown"
    WAITING = "Waiting"
    """Fewer replicas would do, and the window is not over."""
    BOUNDS = "Bounds"
    """The number was outside the bounds."""
    NO_METRICS = "NoMetrics"


@dataclass(frozen=True, slots=True)
class Decision:
    """The number of replicas to ask for, and why."""

    replicas: int
    outcome: Outcome
    message: str
    limited: bool | None = None
    """True if more replicas were needed in the last minute than the bounds allow; None if this is unknown."""


def decide(
    settings: Settings, evidence: Evidence, sample: Sample | None, replicas: int, ready: int | None = None
) -> tuple[Evidence, Decision]:
    """Return the number of replicas to ask for while ``replicas`` are asked for, and the new evidence.

    ``ready`` of them serve; None if this is unknown, which is as if some were starting.
    """
    if sample is None:
        message = "the gateway's counts cannot be read, so nothing changes"
        return evidence, Decision(replicas, Outcome.NO_METRICS, message)
    evidence = evidence.add_sample(sample, replicas, ready)
    evidence, needed = measure_demand(settings, evidence, replicas)
    bounded = needed.limit(settings.least, settings.most)
    evidence = evidence.add_recommendation(bounded.replicas, settings.down_s)
    if needed.replicas > settings.most:
        evidence = replace(evidence, exceeded=evidence.now)
    step = _step(settings, evidence, replicas, bounded)
    decision = replace(step, limited=evidence.is_limited())
    if decision.replicas < replicas:
        evidence = replace(evidence, lowered=evidence.now)
    return evidence, decision


def _step(settings: Settings, evidence: Evidence, replicas: int, needed: Demand) -> Decision:
    if replicas > settings.most:
        message = f"from {replicas} to {settings.most}: maxReplicas allows no more"
        return Decision(settings.most, Outcome.BOUNDS, message)
    if needed.replicas > replicas:
        return _up(settings, evidence, replicas, needed)
    if needed.replicas == replicas:
        return Decision(replicas, Outcome.STEADY, f"{replicas} replicas are what the load needs")
    return _down(settings, evidence, replicas)


def _up(settings: Settings, evidence: Evidence, replicas: int, needed: Demand) -> Decision:
    fewest = evidence.find_fewest()
    allowed = max(_MOST_FACTOR * fewest, fewest + _MOST_STEP, settings.least, replicas)
    count = min(needed.replicas, allowed)
    why = needed.explain(settings, evidence)
    if count == replicas:
        message = f"{why}; the number grows to twice, or by {_MOST_STEP}, in a minute"
        return Decision(replicas, Outcome.STEADY, message)
    return Decision(count, Outcome.UP, f"from {replicas} to {count}: {why}")


def _down(settings: Settings, evidence: Evidence, replicas: int) -> Decision:
    if replicas == 1:
        return _to_zero(settings, evidence)
    needed = evidence.find_peak(settings.down_s)
    wait = f"fewer than {replicas} replicas would do"
    if evidence.samples[-1].held:
        return Decision(replicas, Outcome.WAITING, f"{wait}, and requests are held")
    if evidence.now - evidence.since < settings.down_s or needed >= replicas:
        message = f"{wait}, and not yet for {format_number(settings.down_s)} s"
        return Decision(replicas, Outcome.WAITING, message)
    if evidence.lowered is not None and evidence.now - evidence.lowered < LOWER_EVERY_S:
        return Decision(
            replicas, Outcome.WAITING, f"{wait}; one step down each {format_number(LOWER_EVERY_S)} s"
        )
    count = max(needed, replicas - max(1, replicas // 10), 1)
    enough = number_of(needed, "replica")
    message = (
        f"from {replicas} to {count}: {enough} would have been enough for {format_number(settings.down_s)} s"
    )
    return Decision(count, Outcome.DOWN, message)


def _to_zero(settings: Settings, evidence: Evidence) -> Decision:
    if evidence.now - evidence.idle_since < settings.idle_s:
        message = f"no request now, and not yet for {format_number(settings.idle_s)} s"
        return Decision(1, Outcome.WAITING, message)
    return Decision(0, Outcome.DOWN, f"from 1 to 0: no request for {format_number(settings.idle_s)} s")
