"""A queue of names to look at.

It holds a key once, however often it is added; hands no key to two workers at
a time; and returns failed keys later and later. The same contract as
client-go's rate-limited work queue.
"""

import asyncio
import random
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_DELAY_S = 0.05
LAST_DELAY_S = 60.0


class WorkQueue(Generic[K]):
    """Keys waiting to be worked on, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[K, None] = {}
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Ask for a key to be worked on; while it is being worked on, ask for once more."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = None
            self._arrived.set()

    def add_later(self, key: K, delay_s: float) -> None:
        """Ask for a key after a delay, unless something asks for it sooner."""
        if key in self._waiting or key in self._timers:
            return
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(delay_s, self.add, key)

    async def get(self) -> K:
        """Take the next key, waiting for one; it must be given back by ``done`` or ``failed``."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        key = next(iter(self._waiting))
        del self._waiting[key]
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        """Give a key back after success."""
        self._failures.pop(key, None)
        self._give_back(key)

    def failed(self, key: K) -> float:
        """Give a key back after a failure; return in how many seconds it comes again."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        spread = 0.75 + random.random() / 2  # noqa: S311 - jitter, not a secret
        delay_s: float = min(FIRST_DELAY_S * 2.0 ** min(failures, 16), LAST_DELAY_S) * spread
        self._give_back(key)
        self.add_later(key, delay_s)
        return delay_s

    def _give_back(self, key: K) -> None:
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
