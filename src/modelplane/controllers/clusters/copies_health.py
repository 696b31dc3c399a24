"""Health of a cluster's copies: reliable or not, and the cause."""

import asyncio
from collections.abc import Callable

from modelplane.controllers.clusters.watches import LOADING, Watches
from modelplane.kube import timestamps
from modelplane.kube.informer import Informer

_PATIENCE_S = 15.0
"""Silence of a cluster after which its objects count as unknown."""

LOST_S = 300.0
"""Silence of a cluster after which deleting its InferenceCluster abandons its objects.

Far longer than an API server needs to restart or to be upgraded: abandoned objects are never looked for.
"""


class Health:
    """Health of a cluster, from its watches."""

    def __init__(self, watches: Watches, tell: Callable[[], None]) -> None:
        """``tell`` is called when a copy has been silent for too long."""
        self._watches = watches
        self._tell = tell
        self._reviews: dict[Informer, asyncio.TimerHandle] = {}

    def review(self, informer: Informer) -> None:
        """Schedule the report that a copy is silent for too long; cancel it if the copy was just read."""
        if review := self._reviews.pop(informer, None):
            review.cancel()
        if informer.problem:
            self._reviews[informer] = asyncio.get_running_loop().call_later(_PATIENCE_S, self._tell)

    def close(self) -> None:
        """Cancel every scheduled report."""
        for review in self._reviews.values():
            review.cancel()

    @property
    def problem(self) -> str:
        """The cause if the copies of the cluster are unreliable; empty otherwise.

        A problem with a kind that not every replica needs does not count.
        """
        for informer in self._watches.vital:
            if not informer.synced:
                return informer.problem or LOADING
        if self._watches.looking:
            return self._watches.looking
        if any(not informer.synced and not informer.problem for informer in self._watches.awaited):
            return LOADING
        return self._silence(_PATIENCE_S)

    @property
    def lost(self) -> str:
        """The cause if the cluster has not answered for minutes; empty otherwise."""
        return self._silence(LOST_S)

    def unreachable_since(self) -> str:
        """Return the time at which the cluster stopped answering; empty if unknown."""
        began = [informer.problem_since for informer in self._watches.vital if informer.problem]
        return timestamps.format_ago(asyncio.get_running_loop().time() - min(began)) if began else ""

    @staticmethod
    def silence_of(informer: Informer) -> str | None:
        """Return the cause if a copy is unreliable; None otherwise."""
        return _silent(informer, _PATIENCE_S)

    def _silence(self, patience_s: float) -> str:
        problems = (_silent(informer, patience_s) for informer in self._watches.vital)
        return next(filter(None, problems), "")


def _silent(informer: Informer, patience_s: float) -> str | None:
    """Return the cause if a copy has not been updated for so long; None otherwise."""
    now = asyncio.get_running_loop().time()
    return informer.problem if informer.problem and now - informer.problem_since > patience_s else None
