"""Leader election under slow, lost and refused messages, stalls and crashes: one leads, and soon one does.

Candidates share a clock of the test's own, and an API server in memory. A candidate that ends is replaced
after a while, as a Deployment does.
"""

import asyncio
import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import httpx2
from hypothesis import example, given, settings, strategies as st

from modelplane.controllers.leader import STANDARD
from support import virtual_time
from support.election import Leases, Process

_RESTARTS_AFTER_S = 5.0
_TIMEOUT_S = STANDARD.deadline_s / 2
_FAULTS_END_S = STANDARD.duration_s + _TIMEOUT_S + _RESTARTS_AFTER_S + 3 * 1.1 * STANDARD.retry_s
"""Time from the last fault until one leads at the latest: a lease expires, a request that was under way is
given up, a candidate begins anew, and each of these is seen at the next attempt."""

_AFTERWARD_S = 120.0

_faults = st.lists(
    st.one_of(
        # Seconds that each message takes, on one way.
        st.tuples(st.just("slow"), st.integers(0, 2), st.floats(0, 30), st.floats(0.1, 12)),
        st.tuples(st.just("lost"), st.integers(0, 2), st.floats(0, 30), st.just(0.0)),
        st.tuples(st.just("answers lost"), st.integers(0, 2), st.floats(0, 30), st.just(0.0)),
        # All processes stand still, as on a machine with too much to do.
        st.tuples(st.just("stall"), st.just(0), st.floats(0, 5), st.floats(0.1, 40)),
        st.tuples(st.just("killed"), st.integers(0, 2), st.floats(0, 30), st.just(0.0)),
        st.tuples(st.just("told to end"), st.integers(0, 2), st.floats(0, 30), st.just(0.0)),
        # Another program writes to the lease each so many seconds: conflicts.
        st.tuples(st.just("touched"), st.just(0), st.floats(0, 30), st.floats(0.05, 3)),
    ),
    max_size=10,
)


@dataclass
class World:
    """Candidates, each in its place, and what happens to their messages."""

    leases: Leases = field(default_factory=Leases)
    running: list[Process] = field(default_factory=list)
    worked: list[tuple[float, float]] = field(default_factory=list)
    slow: dict[str, float] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    numbers: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.leases.way = self._way
        self.leases.back = self._back

    async def _way(self, identity: str) -> None:
        place = identity.partition("-")[0]
        if identity in self.dead:
            await asyncio.Event().wait()
        if place in self.lost:
            raise httpx2.ConnectError("lost")
        await asyncio.sleep(self.slow.get(place, 0.01))

    async def _back(self, identity: str) -> None:
        await self._way(identity)
        if identity.partition("-")[0] in self.unanswered:
            raise httpx2.ReadError("the answer was lost")

    def start(self, place: int) -> Process:
        return Process(self.leases, f"{place}-{next(self.numbers)}")

    def kill(self, place: int) -> None:
        """Let a candidate do nothing any more; what it does in its own memory is seen by none."""
        process = self.running[place]
        self.dead.add(process.identity)
        process.killed_at = _now()

    async def replace(self, place: int) -> None:
        process = self.running[place]
        await process.stop()
        if self.running[place] is process:  # else another one has replaced it meanwhile
            self._note(process)
            self.running[place] = self.start(place)

    def _note(self, process: Process) -> None:
        if not process.began and process.identity not in self.dead:
            assert not process.is_deposed, "one that never led has nothing stale, and goes on trying"
        for began, ended in zip(process.began, process.ended, strict=True):
            end = ended if process.killed_at is None else min(ended, process.killed_at)
            if began < end:
                self.worked.append((began, end))

    async def supervise(self) -> None:
        """Replace candidates that ended."""
        since: dict[str, float] = {}
        while True:
            for place, process in enumerate(self.running):
                if process.task.done() or process.identity in self.dead:
                    ended = since.setdefault(process.identity, _now())
                    if _now() - ended >= _RESTARTS_AFTER_S:
                        await self.replace(place)
            await asyncio.sleep(0.5)

    async def touch(self, every_s: float) -> None:
        while True:
            self.leases.touch()
            await asyncio.sleep(every_s)

    async def close(self) -> None:
        for process in self.running:
            await process.stop()
            self._note(process)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _suffer(world: World, kind: str, place: int, seconds: float, value: float) -> None:
    name = str(place % len(world.running))
    place = int(name)
    if kind == "slow":
        world.slow[name] = value
    elif kind == "lost":
        world.lost.add(name)
    elif kind == "answers lost":
        world.unanswered.add(name)
    elif kind == "stall":
        virtual_time.stall(value)
    elif kind == "killed":
        world.kill(place)
    elif kind == "told to end":
        await world.replace(place)
    touching = asyncio.create_task(world.touch(value)) if kind == "touched" else None
    await asyncio.sleep(seconds)
    if touching:
        touching.cancel()


def _run(
    candidates: int, faults: list[tuple[str, int, float, float]]
) -> tuple[float, list[tuple[float, float]]]:
    """Return when the last fault ended, and from when until when any candidate worked."""

    async def scenario() -> tuple[float, list[tuple[float, float]]]:
        random.seed(0)  # the jitter of the candidates, to be repeated
        world = World()
        world.running = [world.start(place) for place in range(candidates)]
        supervising = asyncio.create_task(world.supervise())
        await asyncio.sleep(1)
        for fault in faults:
            await _suffer(world, *fault)
        world.slow.clear()
        world.lost.clear()
        world.unanswered.clear()
        ended = _now()
        await asyncio.sleep(_FAULTS_END_S + _AFTERWARD_S)
        supervising.cancel()
        await world.close()
        return ended, sorted(world.worked)

    return virtual_time.run(scenario())


@settings(max_examples=60, deadline=None)
@given(candidates=st.integers(1, 3), faults=_faults)
@example(candidates=1, faults=[("killed", 0, 3.0, 0.0), ("told to end", 0, 0.0, 0.0)])
def test_one_works_at_a_time_and_once_faults_end_one_works_soon_and_stays(
    candidates: int, faults: list[tuple[str, int, float, float]]
) -> None:
    ended, worked = _run(candidates, faults)
    assert [pair for pair in itertools.pairwise(worked) if pair[1][0] < pair[0][1]] == []
    by = ended + _FAULTS_END_S
    assert any(began <= by and end > by + _AFTERWARD_S - 1 for began, end in worked), (ended, worked)
