"""However requests are delayed, lost and reordered, no two candidates may write at the same time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.controllers.leader import STANDARD, Candidacy

Lease = dict[str, Any]


class Server:
    """Keeps the one lease, and takes a write only where it knows the lease's version."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self._version = 0

    def write(self, version: str, spec: Lease) -> Lease | None:
        known = self.lease["metadata"]["resourceVersion"] if self.lease else ""
        if version != known:
            return None
        self._version += 1
        before = self.lease["spec"] if self.lease else {}
        self.lease = {"metadata": {"resourceVersion": str(self._version)}, "spec": before | spec}
        return self.lease


@dataclass
class Process:
    """A candidate whose requests wait until the test lets them arrive; it does nothing by itself."""

    candidacy: Candidacy
    rate: float
    known: Lease | None = None
    requests: list[tuple[str, Lease, float]] = field(default_factory=list)
    answers: list[Callable[[float], None]] = field(default_factory=list)


class World:
    def __init__(self, rates: tuple[float, ...]) -> None:
        self.server = Server()
        self.now = 0.0
        self.processes = [
            Process(Candidacy(str(number), STANDARD), rate) for number, rate in enumerate(rates)
        ]
        self.led: set[int] = set()
        self.ended: set[int] = set()

    def check(self) -> None:
        """At most one acts, and none that has stopped acting acts again."""
        leaders = {
            number
            for number, process in enumerate(self.processes)
            if process.candidacy.leads(self.now * process.rate)
        }
        assert len(leaders) <= 1
        assert not leaders & self.ended
        self.ended |= self.led - leaders
        self.led |= leaders

    def step(self, number: int, action: str, which: int) -> None:
        process = self.processes[number]
        own_now = self.now * process.rate
        if action == "reads":
            found = self.server.lease
            process.answers.append(lambda at: self._saw(process, found, at))
        elif action == "claims":
            spec = process.candidacy.claim(own_now, f"{self.now}")
            if spec is not None:
                process.requests.append((self._version(process), spec, own_now))
        elif action == "resigns":
            if process.candidacy.leads(own_now):
                process.requests.append((self._version(process), {"holderIdentity": ""}, own_now))
            process.candidacy.resign()
        elif action == "a request arrives" and process.requests:
            version, spec, sent_at = process.requests.pop(which % len(process.requests))
            written = self.server.write(version, spec)
            if written is not None:
                process.answers.append(lambda at: self._wrote(process, written, sent_at, at))
        elif action == "an answer arrives" and process.answers:
            process.answers.pop(which % len(process.answers))(own_now)
        elif action == "an answer is lost" and process.answers:
            process.answers.pop(which % len(process.answers))

    @staticmethod
    def _version(process: Process) -> str:
        return process.known["metadata"]["resourceVersion"] if process.known else ""

    @staticmethod
    def _saw(process: Process, lease: Lease | None, at: float) -> None:
        process.known = lease
        process.candidacy.saw(lease, at)

    @staticmethod
    def _wrote(process: Process, lease: Lease, sent_at: float, at: float) -> None:
        process.known = lease
        process.candidacy.wrote(lease, sent_at, at)


ACTIONS = ("reads", "claims", "a request arrives", "an answer arrives", "an answer is lost", "resigns")
# What a candidate does by itself: looking, and claiming the lease if it may; the last answer may take long.
ROUND = ("reads", "an answer arrives", "claims", "a request arrives", "an answer arrives")

steps = st.tuples(
    st.integers(0, 2),
    st.sampled_from([ROUND, ROUND, ROUND, ROUND[:-1], *((action,) for action in ACTIONS)]),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.0, 2.0, 9.0, 14.0, 17.0]),
)


@settings(max_examples=600, deadline=None)
@given(
    rates=st.tuples(*[st.floats(0.9, 1.1)] * 3),
    script=st.lists(steps, min_size=5, max_size=40),
)
def test_no_two_candidates_may_ever_write_at_the_same_time(
    rates: tuple[float, ...], script: list[tuple[int, tuple[str, ...], int, float]]
) -> None:
    world = World(rates)
    for number, actions, which, pause_s in script:
        for action in actions:
            world.step(number, action, which)
            world.check()
        world.now += pause_s
        world.check()
