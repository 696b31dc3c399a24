"""What drives the controllers: watch events, work queues with back-off, and the clock.

A controller works on as many keys at once as it has workers, and on no key twice at once. A reconcile is
carried out whole, by a clock that is its own: its requests take their time there, and the events of its
writes arrive when they would. So nobody hears of a write before its time; only who asks the server itself
may see one that is, at most, a reconcile early.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from support.crossplane.api import ApiServer, Change, Event, Stored
from support.crossplane.clock import Clock
from support.crossplane.objects import Key, Kind


@dataclass(frozen=True, slots=True)
class Result:
    """What becomes of a key that was reconciled."""

    again: bool = False
    """Whether to try again, later each time."""
    after: float = 0.0
    """In how many seconds to look at it anew; never where it is zero."""


DONE = Result()


class Controller(Protocol):
    """Something that reconciles objects of one API server."""

    first_delay: float
    longest_delay: float
    workers: int
    """How many keys it reconciles at once."""

    def wakes(self, event: Event) -> Iterable[Key]:
        """Return the keys that an event is a reason to look at."""

    def reconcile(self, key: Key) -> Result:
        """Bring an object nearer to what it should be."""


class Cache:
    """What the watches of one API server have told so far."""

    def __init__(self) -> None:
        self._seen: dict[Kind, dict[Key, Stored]] = {}

    def observe(self, event: Event) -> None:
        """Take note of an event."""
        key = event.key
        of_kind = self._seen.setdefault(key.of, {})
        if event.change is Change.DELETED:
            of_kind.pop(key, None)
        else:
            of_kind[key] = event.new

    def get(self, key: Key) -> Stored | None:
        """Return an object as last told of."""
        return self._seen.get(key.of, {}).get(key)

    def list(self, kind: Kind) -> list[Stored]:
        """Return the objects of a kind as last told of, in order of their names."""
        return [stored for _, stored in sorted(self._seen.get(kind, {}).items())]


@dataclass
class _Work:
    """A controller's queue of its own: how often each key has failed, and when it comes back."""

    controller: Controller
    failures: dict[Key, int] = field(default_factory=dict)
    waiting: dict[Key, float] = field(default_factory=dict)
    busy: dict[Key, bool] = field(default_factory=dict)
    """The keys that are being reconciled, and whether each is to be looked at once more after that."""


class Simulation:
    """Controllers at work on one or more API servers."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.delay: Callable[[Event], float] = lambda _event: 0.0
        """How long an event takes to arrive. Those of one object arrive in their order all the same."""
        self.steps = 0
        self._work: dict[str, list[_Work]] = {}
        self._caches: dict[str, Cache] = {}
        self._queue: deque[tuple[_Work, Key]] = deque()
        self._busy = 0
        self._queued: set[tuple[int, Key]] = set()
        self._last: dict[tuple[str, Key], float] = {}

    def server(self, name: str) -> ApiServer:
        """Return a new API server, watched."""
        api = ApiServer(self.clock, name)
        self._work[name], self._caches[name] = [], Cache()
        api.on_event = lambda event: self._send(name, event)
        api.load = lambda: self._busy
        return api

    def cache(self, api: ApiServer) -> Cache:
        """Return what watches of a server have told so far."""
        return self._caches[api.name]

    def add(self, api: ApiServer, controller: Controller) -> None:
        """Let a controller watch a server."""
        self._work[api.name].append(_Work(controller))

    def shuffle(self, seed: int, longest: float) -> None:
        """Let events take up to so many seconds, each its own time."""
        dice = random.Random(seed)  # noqa: S311 - the same dice each time
        self.delay = lambda _event: dice.uniform(0, longest)

    def enqueue(self, controller: Controller, key: Key) -> None:
        """Have a key looked at."""
        for each in self._work.values():
            for work in each:
                if work.controller is controller:
                    self._add(work, key)

    def run_until(self, holds: Callable[[], bool], within: float) -> float:
        """Let time go on until something holds; return how many seconds that took.

        Raises ``TimeoutError`` where it does not hold within so many.
        """
        began = self.clock.now
        while not holds():
            if self.clock.now > began + within or not self.step(until=began + within):
                raise TimeoutError(f"does not hold after {self.clock.now - began:.1f} simulated seconds")
        return self.clock.now - began

    def run_for(self, seconds: float) -> None:
        """Let so much time go by."""
        until = self.clock.now + seconds
        while self.step(until):
            pass
        self.clock.now = max(self.clock.now, until)

    def settle(self) -> None:
        """Do all that can be done without waiting."""
        now = self.clock.next_due
        while self._busy or self._queue or ((due := now()) is not None and due <= self.clock.now):
            self.step(until=math.inf)

    def step(self, until: float) -> bool:
        """Do the next thing; say whether there was one before the given time."""
        self.steps += 1
        if self.clock.do_due() or self._process():
            return True
        due = self.clock.next_due()
        if due is None or due > until:
            return False
        self.clock.jump()
        return True

    def _process(self) -> bool:
        """Begin with the next key that a worker is free for; say whether there was one."""
        for _ in range(len(self._queue)):
            work, key = self._queue.popleft()
            if len(work.busy) < work.controller.workers:
                self._queued.discard((id(work), key))
                self._reconcile(work, key)
                return True
            self._queue.append((work, key))
        return False

    def _reconcile(self, work: _Work, key: Key) -> None:
        began = self.clock.now
        work.busy[key] = False
        self._busy += 1
        result = work.controller.reconcile(key)
        ended, self.clock.now = self.clock.now, began
        self.clock.after(ended - began, lambda: self._finish(work, key, result))

    def _finish(self, work: _Work, key: Key, result: Result) -> None:
        self._busy -= 1
        if work.busy.pop(key):
            self._add(work, key)
        if result.again:
            failed = work.failures[key] = work.failures.get(key, 0) + 1
            first, longest = work.controller.first_delay, work.controller.longest_delay
            self._later(work, key, min(first * 2 ** (failed - 1), longest))
            return
        work.failures.pop(key, None)
        if result.after:
            self._later(work, key, result.after)

    def _later(self, work: _Work, key: Key, seconds: float) -> None:
        """Queue a key after a while; of two such wishes the earlier one counts."""
        at = self.clock.now + seconds
        if work.waiting.get(key, at + 1) <= at:
            return
        work.waiting[key] = at

        def back() -> None:
            if work.waiting.get(key) == at:
                del work.waiting[key]
                self._add(work, key)

        self.clock.after(seconds, back)

    def _add(self, work: _Work, key: Key) -> None:
        if key in work.busy:
            work.busy[key] = True
        elif (id(work), key) not in self._queued:
            self._queued.add((id(work), key))
            self._queue.append((work, key))

    def _send(self, server: str, event: Event) -> None:
        at = max(self.clock.now + self.delay(event), self._last.get((server, event.key), 0.0))
        self._last[server, event.key] = at
        self.clock.after(at - self.clock.now, lambda: self._deliver(server, event))

    def _deliver(self, server: str, event: Event) -> None:
        self._caches[server].observe(event)
        for work in self._work[server]:
            for key in work.controller.wakes(event):
                self._add(work, key)
