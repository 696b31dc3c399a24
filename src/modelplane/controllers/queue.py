"""Work queue of keys, and the backoff of failed keys; ``controllers/workers.py`` reconciles them.

The queue holds a key once, however often the key is added; hands no key to two workers at a time; and returns
failed keys after growing delays. This is the contract of client-go's rate-limited work queue, with three
additions. Keys are in lanes, and the number of keys in progress is limited per lane, so a slow lane delays
only its own keys. The keys of a lane belong to flows, which take turns. A key that has just failed is not
retried at once even if it is added again, so two writers that undo each other's changes do not spin.

The order is that of fair queueing, as in API Priority and Fairness: the oldest key of each flow in turn. A
flow that empties and comes back is behind the others.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_DELAY_S = 0.05
LAST_DELAY_S = 60.0
LONGEST_REST_S = 1.0
"""Longest delay of a failed key that is added again."""


class FairLane(Generic[K]):
    """The waiting keys of a lane, each once; the flows in it take turns."""

    def __init__(self, flow: Callable[[K], str]) -> None:
        self._flow = flow
        self._flows: dict[str, dict[K, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._flows)

    def __contains__(self, key: K) -> bool:
        return key in self._flows.get(self._flow(key), ())

    def add(self, key: K) -> None:
        """Add a key at the end of its flow, unless it is there."""
        self._flows.setdefault(self._flow(key), {})[key] = None

    def take(self) -> K:
        """Take the oldest key of the flow whose turn it is."""
        flow, keys = next(iter(self._flows.items()))
        key = next(iter(keys))
        del keys[key], self._flows[flow]
        if keys:
            self._flows[flow] = keys  # behind the others
        return key


class WorkQueue(Generic[K]):
    """Keys to process, in the order in which they were added to their flow."""

    def __init__(
        self,
        width: int,
        lane: Callable[[K], str] = lambda _key: "",
        flow: Callable[[K], str] = lambda _key: "",
        waited: Callable[[float], None] = lambda _duration_s: None,
    ) -> None:
        """Hand out at most ``width`` keys of each lane at a time, and report how many seconds each waited."""
        self._width = width
        self._lane = lane
        self._flow = flow
        self._waited = waited
        self._waiting: dict[K, float] = {}  # since when
        self._lanes: dict[str, FairLane[K]] = {}
        self._running: dict[K, str] = {}
        self._busy: Counter[str] = Counter()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._resting: dict[K, float] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        """The number of keys in progress."""
        return len(self._running)

    def add(self, key: K) -> None:
        """Add a key; one in progress is processed once more afterwards."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            rest_s = self._resting.get(key, 0.0) - asyncio.get_running_loop().time()
            if rest_s > 0:
                self.add_later(key, rest_s)
            else:
                self._put(key)

    def add_later(self, key: K, delay_s: float) -> None:
        """Add a key after a delay, unless it is added sooner."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if key in self._waiting or (timer is not None and timer.when() <= loop.time() + delay_s):
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(delay_s, self._due, key)

    def _due(self, key: K) -> None:
        if key in self._running:
            del self._timers[key]
            self._again.add(key)
        else:
            self._put(key)

    def _put(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        queued = self._lanes.setdefault(self._lane(key), FairLane(self._flow))
        self._waiting[key] = asyncio.get_running_loop().time()
        queued.add(key)
        self._arrived.set()

    async def get(self) -> K:
        """Wait for the next key and take it; end it with ``done`` or ``failed``."""
        while True:
            for lane, queued in self._lanes.items():
                if self._busy[lane] < self._width:
                    return self._take(lane, queued)
            self._arrived.clear()
            await self._arrived.wait()

    def _take(self, lane: str, queued: FairLane[K]) -> K:
        key = queued.take()
        self._waited(asyncio.get_running_loop().time() - self._waiting.pop(key))
        del self._lanes[lane]
        if queued:
            self._lanes[lane] = queued  # behind the others
        self._running[key] = lane
        self._busy[lane] += 1
        return key

    def done(self, key: K) -> None:
        """End a key in progress after success."""
        self._failures.pop(key, None)
        self._resting.pop(key, None)
        self._give_back(key)

    def failed(self, key: K) -> float:
        """End a key in progress after a failure; return the seconds until it is retried."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        spread = 0.75 + random.random() / 2  # noqa: S311 - jitter, not a secret
        rest_s = delay_s(FIRST_DELAY_S, failures, LAST_DELAY_S) * spread
        self._resting[key] = asyncio.get_running_loop().time() + min(rest_s, LONGEST_REST_S)
        self._give_back(key)
        self.add_later(key, rest_s)
        return rest_s

    def _give_back(self, key: K) -> None:
        lane = self._running.pop(key)
        self._busy[lane] -= 1
        if not self._busy[lane]:
            del self._busy[lane]
        self._arrived.set()
        if key in self._again:
            self._again.discard(key)
            self.add(key)


def delay_s(first_s: float, failures: int, longest_s: float) -> float:
    """Return the delay after an attempt that ``failures`` failed ones in a row preceded."""
    return min(first_s * 2.0 ** min(failures, 20), longest_s)  # a larger exponent overflows in the end
