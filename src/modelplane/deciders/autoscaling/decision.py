"""Decision: the number of replicas of a deployment, from evidence, bounds and targets.

More replicas at once, fewer after a stabilization window, none after a longer one. The number follows from
the load and not from the former number, so replicas that are starting count as capacity. Without a sample
nothing changes.

Load and tokens give a number by themselves. First tokens that are late ask for one more than there are, since
their time says that there are too few and not by how much.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import NamedTuple

from modelplane.api.listing import count_noun
from modelplane.deciders.autoscaling.evidence import BURST_S, MEAN_S, Evidence, Sample, is_missed

TOLERANCE = 0.1
"""Part by which the load may differ from the target before the number changes."""

_WINDOW_S = MEAN_S / 2
"""First tokens are late if they were so in two windows, one after the other."""

REMEMBER_S = 3600.0
"""Seconds for which a load that made first tokens late is not tried again with as few replicas."""

LOWER_EVERY_S = 15.0
"""Seconds between two steps down; one step is a tenth of the replicas, at least one."""

_MOST_FACTOR, _MOST_STEP = 2, 4
"""Growth in a minute: to twice the number or by four replicas, whichever is more."""


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    """Bounds, targets and windows."""

    min_replicas: int = 1
    max_replicas: int = 1
    requests: float | None = None
    """Requests in flight and held per replica."""
    tokens_per_second: float | None = None
    """Tokens of answers per second and replica."""
    first_token_s: float | None = None
    """Goal for the time to the first token of 95 of 100 streams, in seconds."""
    scale_down_window_s: float = 600.0
    """Seconds in which no more replicas were needed, before a step down."""
    scale_to_zero_window_s: float = 900.0
    """Seconds without a request, before the last replica is given up."""


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


class _By(Enum):
    REQUEST = auto()
    """A single request, since a replica has to serve it."""
    LOAD = auto()
    """The mean load of a minute."""
    BURST = auto()
    """The mean load of the last seconds."""
    TOKENS = auto()
    MINIMUM = auto()
    FIRST_TOKENS = auto()


class Demand(NamedTuple):
    """A number of replicas."""

    replicas: int
    by: _By = _By.LOAD

    def limit(self, least: int, most: int) -> "Demand":
        """Return the number that bounds allow."""
        return (
            Demand(least, _By.MINIMUM) if self.replicas < least else Demand(min(self.replicas, most), self.by)
        )

    def explain(self, settings: ScalingSettings, evidence: Evidence) -> str:
        """Return the reason for the number, as part of a sentence."""
        if self.by is _By.MINIMUM:
            return f"minReplicas is {self.replicas}"
        if self.by is not _By.FIRST_TOKENS:
            return f"{_name_load(self.by, evidence)} needs {count_noun(self.replicas, 'replica')}"
        goal = round((settings.first_token_s or 0) * 1000)
        return f"more than 5 in 100 streams of a minute waited longer than {goal} ms for their first token"


def decide(
    settings: ScalingSettings,
    evidence: Evidence,
    sample: Sample | None,
    replicas: int,
    ready: int | None = None,
) -> tuple[Evidence, Decision]:
    """Return the number of replicas to ask for while ``replicas`` are asked for, and the new evidence.

    ``ready`` of them serve; None if this is unknown, which is as if some were starting.
    """
    if sample is None:
        message = "cannot read the gateway's counts, so the number of replicas is unchanged"
        return evidence, Decision(replicas, Outcome.NO_METRICS, message)
    evidence = evidence.add_sample(sample, replicas, ready)
    evidence, needed = derive_demand(settings, evidence, replicas)
    bounded = needed.limit(settings.min_replicas, settings.max_replicas)
    evidence = evidence.add_recommendation(bounded.replicas, settings.scale_down_window_s)
    if needed.replicas > settings.max_replicas:
        evidence = replace(evidence, exceeded=evidence.now)
    decision = replace(_step(settings, evidence, replicas, bounded), limited=evidence.is_limited())
    if decision.replicas < replicas:
        evidence = replace(evidence, lowered=evidence.now)
    return evidence, decision


def derive_demand(settings: ScalingSettings, evidence: Evidence, replicas: int) -> tuple[Evidence, Demand]:
    """Return how many replicas the targets need, without bounds, and what is learned from it."""
    needed = _demand_of_load(settings, evidence, replicas)
    if settings.first_token_s is None:
        return evidence, needed
    if _is_late(evidence, settings.first_token_s):
        evidence = replace(evidence, overloaded=(evidence.now, evidence.load(MEAN_S) / max(replicas, 1)))
        if needed.replicas <= replicas:
            return evidence, Demand(replicas + 1, _By.FIRST_TOKENS)
    return evidence, needed._replace(replicas=max(needed.replicas, min(replicas, _fewest_on_time(evidence))))


def _demand_of_load(settings: ScalingSettings, evidence: Evidence, replicas: int) -> Demand:
    """Return the most replicas that load and tokens need, with the figure that decides."""
    demands = []
    if settings.requests is not None:
        demands.append(Demand(_per_replica(evidence.load(MEAN_S), settings.requests, replicas), _By.LOAD))
        burst = _per_replica(evidence.load(BURST_S), settings.requests, replicas)
        if burst >= 2 * max(replicas, 1):
            demands.append(Demand(burst, _By.BURST))
    if settings.tokens_per_second is not None:
        rate = evidence.measure_tokens_per_second()
        demands.append(Demand(_per_replica(rate, settings.tokens_per_second, replicas), _By.TOKENS))
    demands.append(Demand(1 if evidence.samples[-1].is_busy else 0, _By.REQUEST))
    return max(demands, key=lambda demand: demand.replicas)


def _per_replica(amount: float, target: float, replicas: int) -> int:
    """Return the replicas for an amount; the present number if the amount is about its target."""
    is_about = replicas and abs(amount / (target * replicas) - 1) <= TOLERANCE
    return replicas if is_about else math.ceil(amount / target)


def _is_late(evidence: Evidence, goal_s: float) -> bool:
    """Return True if first tokens were late in both windows, while all replicas served."""
    since, now = evidence.serving_since, evidence.now
    if since is None or now - since < 2 * _WINDOW_S:
        return False
    windows = (
        evidence.count_first_tokens(now - _WINDOW_S, now),
        evidence.count_first_tokens(since, now - _WINDOW_S),
    )
    return all(is_missed(window, goal_s) for window in windows)


def _fewest_on_time(evidence: Evidence) -> int:
    """Return the least replicas that have less load each than those whose first tokens were late."""
    at, load = evidence.overloaded or (-math.inf, 0.0)
    if evidence.now - at > REMEMBER_S or load <= 0:
        return 0
    # The same load with the same number must not be a fraction below it.
    return math.floor(evidence.load(MEAN_S) / load + 1e-6) + 1


def _step(settings: ScalingSettings, evidence: Evidence, replicas: int, needed: Demand) -> Decision:
    if replicas > settings.max_replicas:
        message = f"from {replicas} to {settings.max_replicas}: limited by maxReplicas"
        return Decision(settings.max_replicas, Outcome.BOUNDS, message)
    if needed.replicas > replicas:
        return _up(settings, evidence, replicas, needed)
    if needed.replicas == replicas:
        return Decision(replicas, Outcome.STEADY, f"the load requires {replicas} replicas")
    return _down(settings, evidence, replicas)


def _up(settings: ScalingSettings, evidence: Evidence, replicas: int, needed: Demand) -> Decision:
    fewest = evidence.find_fewest()
    allowed = max(_MOST_FACTOR * fewest, fewest + _MOST_STEP, settings.min_replicas, replicas)
    count = min(needed.replicas, allowed)
    why = needed.explain(settings, evidence)
    if count == replicas:
        message = f"{why}; the number can at most double, or grow by {_MOST_STEP}, per minute"
        return Decision(replicas, Outcome.STEADY, message)
    return Decision(count, Outcome.UP, f"from {replicas} to {count}: {why}")


def _down(settings: ScalingSettings, evidence: Evidence, replicas: int) -> Decision:
    if replicas == 1:
        return _to_zero(settings, evidence)
    needed = evidence.find_peak(settings.scale_down_window_s)
    wait = f"fewer than {replicas} replicas would be enough"
    if evidence.samples[-1].held:
        return Decision(replicas, Outcome.WAITING, f"{wait}, and requests are held")
    if evidence.now - evidence.since < settings.scale_down_window_s or needed >= replicas:
        message = f"{wait}, but not for {format_number(settings.scale_down_window_s)} s yet"
        return Decision(replicas, Outcome.WAITING, message)
    if evidence.lowered is not None and evidence.now - evidence.lowered < LOWER_EVERY_S:
        return Decision(
            replicas, Outcome.WAITING, f"{wait}; one step down every {format_number(LOWER_EVERY_S)} s"
        )
    count = max(needed, replicas - max(1, replicas // 10), 1)
    enough = count_noun(needed, "replica")
    message = f"{enough} would have been enough for {format_number(settings.scale_down_window_s)} s"
    return Decision(count, Outcome.DOWN, f"from {replicas} to {count}: {message}")


def _to_zero(settings: ScalingSettings, evidence: Evidence) -> Decision:
    if evidence.now - evidence.idle_since < settings.scale_to_zero_window_s:
        message = f"no requests now, but not for {format_number(settings.scale_to_zero_window_s)} s yet"
        return Decision(1, Outcome.WAITING, message)
    return Decision(
        0, Outcome.DOWN, f"from 1 to 0: no requests for {format_number(settings.scale_to_zero_window_s)} s"
    )


def _name_load(by: _By, evidence: Evidence) -> str:
    """Return the figure that decides, as the subject of a sentence."""
    if by is _By.REQUEST:
        return "a request"
    if by is _By.TOKENS:
        return f"a load of {format_number(evidence.measure_tokens_per_second())} tokens/s on average"
    requests = format_number(evidence.load(BURST_S if by is _By.BURST else MEAN_S))
    load = f"a load of {requests} request" if requests == "1" else f"a load of {requests} requests"
    return f"{load} in the last {format_number(BURST_S)} s" if by is _By.BURST else f"{load} on average"


def format_number(number: float) -> str:
    """Return a number as a message has it."""
    return f"{number:.1f}".removesuffix(".0")
