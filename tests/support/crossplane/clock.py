"""Simulated time: it moves only when somebody moves it."""

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Seconds since the simulation began, and what is due at which of them."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def __str__(self) -> str:
        """Say the time as Kubernetes writes it."""
        return self.time().strftime("%Y-%m-%dT%H:%M:%SZ")

    def time(self) -> datetime:
        """Return the time of day."""
        return _EPOCH + timedelta(seconds=self.now)

    def spend(self, seconds: float) -> None:
        """Let time pass that something really took."""
        self.now += seconds

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._due, (self.now + seconds, next(self._order), do))

    def next_due(self) -> float | None:
        """Return when the next thing is due; nothing where nothing is."""
        return self._due[0][0] if self._due else None

    def do_due(self) -> bool:
        """Do what is due by now; say whether there was anything."""
        did = False
        while self._due and self._due[0][0] <= self.now:
            heapq.heappop(self._due)[2]()
            did = True
        return did

    def jump(self) -> None:
        """Go to the next thing that is due."""
        if self._due:
            self.now = max(self.now, self._due[0][0])
