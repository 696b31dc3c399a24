"""Demand: the number of replicas that the targets need, and the target that needs the most.

Load and tokens give a number by themselves. First tokens that are late ask for one more than there are, since
their time says that there are too few and not by how much.
"""

import math
from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

from modelplane.api.listing import number_of
from modelplane.deciders.autoscaling import first_tokens
from modelplane.deciders.autoscaling.autoscaler_settings import Settings
from modelplane.deciders.autoscaling.evidence import BURST_S, MEAN_S, Evidence

TOLERANCE = 0.1
"""Part by which the load may differ from the target before the number changes."""

_WINDOW_S = MEAN_S / 2
"""First tokens are late if they were so in two windows, one after the other."""

REMEMBER_S = 3600.0
"""Seconds for which a load that made first tokens late is not tried again with as few replicas."""


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
        if self.replicas < least:
            return Demand(least, _By.MINIMUM)
        return self._replace(replicas=min(self.replicas, most))

    def explain(self, settings: Settings, evidence: Evidence) -> str:
        """Return the reason for the number, as part of a sentence."""
        if self.by is _By.MINIMUM:
            return f"minReplicas is {self.replicas}"
        if self.by is not _By.FIRST_TOKENS:
            return f"{_load(self.by, evidence)} needs {number_of(self.replicas, 'replica')}"
        goal = round((settings.first_token_s or 0) * 1000)
        return f"more than 5 in 100 streams of a minute waited longer than {goal} ms for their first token"


def measure_demand(settings: Settings, evidence: Evidence, replicas: int) -> tuple[Evidence, Demand]:
    """Return how many replicas the targets need, without bounds, and what is learned from it."""
    needed = _of_load(settings, evidence, replicas)
    if settings.first_token_s is None:
        return evidence, needed
    if _is_late(evidence, settings.first_token_s):
        evidence = replace(evidence, overloaded=(evidence.now, evidence.load(MEAN_S) / max(replicas, 1)))
        if needed.replicas <= replicas:
            return evidence, Demand(replicas + 1, _By.FIRST_TOKENS)
    return evidence, needed._replace(replicas=max(needed.replicas, min(replicas, _kept(evidence))))


def _of_load(settings: Settings, evidence: Evidence, replicas: int) -> Demand:
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
    if replicas and abs(amount / (target * replicas) - 1) <= TOLERANCE:
        return replicas
    return math.ceil(amount / target)


def _is_late(evidence: Evidence, goal_s: float) -> bool:
    """Return True if first tokens were late in both windows, while all replicas served."""
    since, now = evidence.serving_since, evidence.now
    if since is None or now - since < 2 * _WINDOW_S:
        return False
    windows = (
        evidence.count_first_tokens(now - _WINDOW_S, now),
        evidence.count_first_tokens(since, now - _WINDOW_S),
    )
    return all(first_tokens.is_missed(window, goal_s) for window in windows)


def _kept(evidence: Evidence) -> int:
    """Return the least replicas that have less load each than those whose first tokens were late."""
    at, load = evidence.overloaded or (-math.inf, 0.0)
    if evidence.now - at > REMEMBER_S or load <= 0:
        return 0
    # The same load with the same number must not be a fraction below it.
    return math.floor(evidence.load(MEAN_S) / load + 1e-6) + 1


def _load(by: _By, evidence: Evidence) -> str:
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
