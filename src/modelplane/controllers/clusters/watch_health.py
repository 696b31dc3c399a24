"""Health of a cluster's watches: why the watched objects cannot be relied on, and since when."""

import asyncio
from collections.abc import Callable

from modelplane.controllers.clusters.watches import LOADING, Watches
from modelplane.kube import timestamps
from modelplane.kube.informer import Informer

PATIENCE_S = 15.0
"""Silence of a cluster after which its objects count as unknown."""

LOST_S = 300.0
"""Silence of a cluster after which deleting its InferenceCluster abandons its objects.

Far longer than an API server needs to restart or to be upgraded: abandoned objects are never looked for.
"""


class WatchHealth:
    """Health of the watches on one cluster."""

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
            self._reviews[informer] = asyncio.get_running_loop().call_later(PATIENCE_S, self._tell)

    def close(self) -> None:
        """Cancel every scheduled report."""
        for review in self._reviews.values():
            review.cancel()

    @property
    def problem(self) -> str | None:
        """The cause if the watched objects of the cluster are unreliable; None if they are reliable.

        A problem with a kind that not every replica needs does not count.
        """
        for informer in self._watches.vital:
            if not informer.synced:
                return informer.problem or LOADING
        if self._watches.looking:
            return self._watches.looking
        if any(not informer.synced and not informer.problem for informer in self._watches.awaited):
            return LOADING
        return self._silence(PATIENCE_S)

    @property
    def loss(self) -> str | None:
        """The cause if the cluster has not answered for minutes; None if it has."""
        return self._silence(LOST_S)

    @property
    def unreachable_since(self) -> str | None:
        """Time at which the cluster stopped answering; None if it answers."""
        began = [informer.problem_since for informer in self._watches.vital if informer.problem]
        return timestamps.format_ago(asyncio.get_running_loop().time() - min(began)) if began else None

    def _silence(self, patience_s: float) -> str | None:
        silences = (silence_of(informer, patience_s) for informer in self._watches.vital)
        return next(filter(None, silences), None)


def silence_of(informer: Informer, patience_s: float = PATIENCE_S) -> str | None:
    """Return the cause if a copy has not been updated for so long; None if it has."""
    now = asyncio.get_running_loop().time()
    return informer.problem if informer.problem and now - informer.problem_since > patience_s else None
