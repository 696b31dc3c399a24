"""Decision: the number of replicas of a deployment, from evidence, bounds and targets.

More replicas at once, fewer after a window, none after a longer one. The number follows from the load and not
from the former number, so replicas that are starting count as capacity. Without a sample nothing changes.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from modelplane.api.listing import number_of
from modelplane.autoscaling.evidence import BURST_S, MEAN_S, Evidence, Sample

TOLERANCE = 0.1
"""Part by which the load may differ from the target before the number changes."""

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
class Settings:
    """Bounds, targets and windows."""

    least: int = 1
    most: int = 1
    requests: float | None = None
    """Requests in flight and held per replica."""
    tokens_per_second: float | None = None
    """Tokens of answers per second and replica."""
    down_s: float = 600.0
    """Seconds in which no more replicas were needed, before a step down."""
    idle_s: float = 900.0
    """Seconds without a request, before the last replica is given up."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The number of replicas to ask for, and why."""

    replicas: int
    outcome: Outcome
    message: str
    limited: bool | None = None
    """True if more replicas were needed in the last minute than the bounds allow; None if this is unknown."""


def decide(
    settings: Settings, evidence: Evidence, sample: Sample | None, replicas: int
) -> tuple[Evidence, Decision]:
    """Return the number of replicas to ask for while ``replicas`` are asked for, and the new evidence."""
    if sample is None:
        message = "the gateway's counts cannot be read, so nothing changes"
        return evidence, Decision(replicas, Outcome.NO_METRICS, message)
    evidence = evidence.with_sample(sample, replicas)
    needed = _needed(settings, evidence, replicas)
    bounded = min(max(needed, settings.least), settings.most)
    evidence = evidence.with_recommendation(bounded, settings.down_s)
    if needed > settings.most:
        evidence = replace(evidence, exceeded=evidence.now)
    decision = replace(_step(settings, evidence, replicas, bounded), limited=evidence.limited())
    if decision.replicas < replicas:
        evidence = replace(evidence, lowered=evidence.now)
    return evidence, decision


def _needed(settings: Settings, evidence: Evidence, replicas: int) -> int:
    """Return how many replicas the load needs, without bounds."""
    needed = 1 if evidence.samples[-1].is_busy else 0
    if settings.requests is not None:
        needed = max(needed, _per_replica(evidence.load(MEAN_S), settings.requests, replicas))
        burst = _per_replica(evidence.load(BURST_S), settings.requests, replicas)
        if burst >= 2 * max(replicas, 1):
            needed = max(needed, burst)
    if settings.tokens_per_second is not None:
        rate = evidence.tokens_per_second()
        needed = max(needed, _per_replica(rate, settings.tokens_per_second, replicas))
    return needed


def _per_replica(amount: float, target: float, replicas: int) -> int:
    """Return the replicas for an amount; the present number if the amount is about its target."""
    if replicas and abs(amount / (target * replicas) - 1) <= TOLERANCE:
        return replicas
    return math.ceil(amount / target)


def _step(settings: Settings, evidence: Evidence, replicas: int, needed: int) -> Decision:
    if replicas > settings.most:
        message = f"from {replicas} to {settings.most}: maxReplicas allows no more"
        return Decision(settings.most, Outcome.BOUNDS, message)
    if needed > replicas:
        return _up(settings, evidence, replicas, needed)
    if needed == replicas:
        return Decision(replicas, Outcome.STEADY, f"{replicas} replicas are what the load needs")
    return _down(settings, evidence, replicas)


def _up(settings: Settings, evidence: Evidence, replicas: int, needed: int) -> Decision:
    fewest = evidence.fewest()
    allowed = max(_MOST_FACTOR * fewest, fewest + _MOST_STEP, settings.least, replicas)
    count = min(needed, allowed)
    load = f"a load of {_load(settings, evidence)} on average needs {number_of(needed, 'replica')}"
    if count == replicas:
        message = f"{load}; the number grows to twice, or by {_MOST_STEP}, in a minute"
        return Decision(replicas, Outcome.STEADY, message)
    return Decision(count, Outcome.UP, f"from {replicas} to {count}: {load}")


def _load(settings: Settings, evidence: Evidence) -> str:
    """Return the amounts that have a target, as part of a sentence."""
    amounts = []
    if settings.requests is not None:
        requests = _told(evidence.load(MEAN_S))
        amounts.append(f"{requests} request" if requests == "1" else f"{requests} requests")
    if settings.tokens_per_second is not None:
        amounts.append(f"{_told(evidence.tokens_per_second())} tokens/s")
    return " and ".join(amounts)


def _down(settings: Settings, evidence: Evidence, replicas: int) -> Decision:
    if replicas == 1:
        return _to_zero(settings, evidence)
    needed = evidence.peak(settings.down_s)
    wait = f"fewer than {replicas} replicas would do"
    if evidence.samples[-1].held:
        return Decision(replicas, Outcome.WAITING, f"{wait}, and requests are held")
    if evidence.now - evidence.since < settings.down_s or needed >= replicas:
        message = f"{wait}, and not yet for {_told(settings.down_s)} s"
        return Decision(replicas, Outcome.WAITING, message)
    if evidence.lowered is not None and evidence.now - evidence.lowered < LOWER_EVERY_S:
        return Decision(replicas, Outcome.WAITING, f"{wait}; one step down each {_told(LOWER_EVERY_S)} s")
    count = max(needed, replicas - max(1, replicas // 10), 1)
    enough = number_of(needed, "replica")
    message = f"from {replicas} to {count}: {enough} would have been enough for {_told(settings.down_s)} s"
    return Decision(count, Outcome.DOWN, message)


def _to_zero(settings: Settings, evidence: Evidence) -> Decision:
    if evidence.now - evidence.idle_since < settings.idle_s:
        message = f"no request now, and not yet for {_told(settings.idle_s)} s"
        return Decision(1, Outcome.WAITING, message)
    return Decision(0, Outcome.DOWN, f"from 1 to 0: no request for {_told(settings.idle_s)} s")


def _told(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
