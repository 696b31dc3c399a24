"""Demand: the number of replicas that the targets need, and the target that needs the most.

Load and tokens give a number by themselves. First tokens that are late ask for one more than there are, since
their time says that there are too few and not by how much.
"""

import math
from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

from modelplane.api.listing import number_of
from modelplane.autoscaling import first_tokens
from modelplane.autoscaling.evidence import BURST_S, MEAN_S, Evidence
from modelplane.autoscaling.settings import Settings

TOLERANCE = 0.1
"""Part by which the load may differ from the target before the number changes."""

_WINDOW_S = MEAN_S / 2
"""First tokens are late if they were so in two windows, one after the other."""

REMEMBER_S = 3600.0
"""Seconds for which a load that made first tokens late is not tried again with as few replicas."""


class _By(Enum):
    LOAD = auto()
    MINIMUM = auto()
    FIRST_TOKENS = auto()


class Demand(NamedTuple):
    """A number of replicas."""

    replicas: int
    by: _By = _By.LOAD

    def within(self, least: int, most: int) -> "Demand":
        """Return the number that bounds allow."""
        if self.replicas < least:
            return Demand(least, _By.MINIMUM)
        return self._replace(replicas=min(self.replicas, most))

    def why(self, settings: Settings, evidence: Evidence) -> str:
        """Return the reason for the number, as part of a sentence."""
        if self.by is _By.MINIMUM:
            return f"minReplicas is {self.replicas}"
        if self.by is _By.LOAD:
            replicas = number_of(self.replicas, "replica")
            return f"a load of {_load(settings, evidence)} on average needs {replicas}"
        goal = round((settings.first_token_s or 0) * 1000)
        return f"more than 5 in 100 streams of a minute waited longer than {goal} ms for their first token"


def demand(settings: Settings, evidence: Evidence, replicas: int) -> tuple[Evidence, Demand]:
    """Return how many replicas the targets need, without bounds, and what is learned from it."""
    needed = _of_load(settings, evidence, replicas)
    if settings.first_token_s is None:
        return evidence, Demand(needed)
    if _is_late(evidence, settings.first_token_s):
        evidence = replace(evidence, overloaded=(evidence.now, evidence.load(MEAN_S) / max(replicas, 1)))
        if needed <= replicas:
            return evidence, Demand(replicas + 1, _By.FIRST_TOKENS)
    return evidence, Demand(max(needed, min(replicas, _kept(evidence))))


def _of_load(settings: Settings, evidence: Evidence, replicas: int) -> int:
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


def _is_late(evidence: Evidence, goal_s: float) -> bool:
    """Return True if first tokens were late in both windows, while all replicas served."""
    since, now = evidence.serving_since, evidence.now
    if since is None or now - since < 2 * _WINDOW_S:
        return False
    windows = (evidence.first_tokens(now - _WINDOW_S, now), evidence.first_tokens(since, now - _WINDOW_S))
    return all(first_tokens.misses(each, goal_s) for each in windows)


def _kept(evidence: Evidence) -> int:
    """Return the least replicas that have less load each than those whose first tokens were late."""
    at, load = evidence.overloaded or (-math.inf, 0.0)
    if evidence.now - at > REMEMBER_S or load <= 0:
        return 0
    # The same load with the same number must not be a fraction below it.
    return math.floor(evidence.load(MEAN_S) / load + 1e-6) + 1


def _load(settings: Settings, evidence: Evidence) -> str:
    """Return the amounts that have a target, as part of a sentence."""
    amounts = []
    if settings.requests is not None:
        requests = told(evidence.load(MEAN_S))
        amounts.append(f"{requests} request" if requests == "1" else f"{requests} requests")
    if settings.tokens_per_second is not None:
        amounts.append(f"{told(evidence.tokens_per_second())} tokens/s")
    return " and ".join(amounts)


def told(number: float) -> str:
    """Return a number as a message has it."""
    return f"{number:.1f}".removesuffix(".0")
