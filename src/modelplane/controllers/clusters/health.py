"""Health of a cluster's copies: reliable or not, and the cause."""

import asyncio
from collections.abc import Callable

from modelplane.controllers.clusters.watches import LOADING, Watches
from modelplane.kube import timestamps
from modelplane.kube.informer import Informer

_PATIENCE_S = 15.0
"""How long a cluster may be silent before what is known of it counts as unknown."""

LOST_S = 300.0
"""How long a cluster may be silent before a person who deletes it is taken to mean that it is gone.

Far longer than an API server needs to restart or to be upgraded: what is given up is never looked for.
"""


class Health:
    """What the watches of a cluster say about the cluster."""

    def __init__(self, watches: Watches, tell: Callable[[], None]) -> None:
        """``tell`` is called when patience with a copy ends."""
        self._watches = watches
        self._tell = tell
        self._reviews: dict[Informer, asyncio.TimerHandle] = {}

    def review(self, informer: Informer) -> None:
        """Arrange for the news that patience with a copy ends; none where it was just read."""
        if review := self._reviews.pop(informer, None):
            review.cancel()
        if informer.problem:
            self._reviews[informer] = asyncio.get_running_loop().call_later(_PATIENCE_S, self._tell)

    def close(self) -> None:
        """Call nobody any more."""
        for review in self._reviews.values():
            review.cancel()

    @property
    def problem(self) -> str:
        """Why what is known of the cluster cannot be relied on; empty while it can.

        A kind that not every replica needs is no reason to do without the cluster.
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
        """Why the cluster has not answered for long; empty while it has, or may yet."""
        return self._silence(LOST_S)

    def unreachable_since(self) -> str:
        """Return when the cluster stopped answering; empty where that is not known."""
        began = [informer.problem_since for informer in self._watches.vital if informer.problem]
        return timestamps.ago(asyncio.get_running_loop().time() - min(began)) if began else ""

    @staticmethod
    def silence_of(informer: Informer) -> str:
        """Return why a copy can no longer be relied on; empty while it can."""
        return _silent(informer, _PATIENCE_S)

    def _silence(self, patience_s: float) -> str:
        problems = (_silent(informer, patience_s) for informer in self._watches.vital)
        return next(filter(None, problems), "")


def _silent(informer: Informer, patience_s: float) -> str:
    """Return why a copy has not been brought up to date for so long; empty while it has."""
    now = asyncio.get_running_loop().time()
    return informer.problem if informer.problem and now - informer.problem_since > patience_s else ""
