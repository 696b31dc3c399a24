"""The rollout of mutual TLS: no request uses a protocol that the cluster's gateway does not accept."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings, strategies as st

from modelplane.api.fields.cluster.mutual_tls_settings import MutualTLSPhase
from modelplane.gateway.mutual_tls import Protocol, Rollout, Seen, choose_protocol, list_accepted, step

DRAIN = timedelta(minutes=10)
REQUEST = timedelta(minutes=9)
"""The longest request; one that is longer than ``DRAIN`` may be cut, as documented."""

Event = tuple[str, int]

_ENDPOINTS = tuple(("endpoint", number) for number in range(2))
_ROUND: tuple[Event, ...] = (("controllers", 0), ("status", 0), ("cluster", 0), *_ENDPOINTS)
"""What everyone does in turn, if nobody is late."""

# The controllers act more often than the cluster, which may be late.
EVENTS = st.lists(
    st.sampled_from(
        [
            *(("controllers", 0), ("status", 0), *_ENDPOINTS) * 3,
            *(("cluster", 0), ("restart", 0), ("turn", 0), ("round", 0)),
            *(("request", 0), ("request", 1), ("wait", 60), ("wait", 700)),
        ]
    ),
    min_size=30,
    max_size=100,
)


_NONE = Rollout()


@dataclass
class World:
    """A cluster, its endpoints and the controllers, each of which acts at any time."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    wanted: bool = False
    certified: bool = False
    stored: Rollout = _NONE
    """The status that the next look begins with."""
    latest: Rollout = _NONE
    """The result of the last look."""
    listening: frozenset[Protocol] = frozenset({Protocol.PLAIN})
    reported: bool = True
    """True if the cluster has done what was last asked of it."""
    asked: frozenset[Protocol] = frozenset({Protocol.PLAIN})
    endpoints: list[Protocol] = field(default_factory=lambda: [Protocol.PLAIN] * len(_ENDPOINTS))
    requests: list[tuple[Protocol, datetime]] = field(default_factory=list)

    def do(self, event: Event) -> None:
        name, number = event
        getattr(self, f"_{name}")(number)
        self.requests = [each for each in self.requests if each[1] > self.now]
        in_use = {*self.endpoints, *(protocol for protocol, _ in self.requests)}
        assert in_use <= self.listening, (event, self)

    def _round(self, _number: int) -> None:
        for event in _ROUND:
            self.do(event)

    def _turn(self, _number: int) -> None:
        self.wanted = not self.wanted

    def _wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    def _controllers(self, _number: int) -> None:
        in_force = self.listening if self.reported else frozenset()
        seen = Seen(self.wanted, self.certified, in_force, frozenset(self.endpoints))
        self.latest = step(self.stored, seen, DRAIN, self.now)
        if (asked := list_accepted(self.latest.phase)) != self.asked:
            self.asked, self.reported = asked, False

    def _status(self, _number: int) -> None:
        self.stored = self.latest

    def _restart(self, _number: int) -> None:
        self.latest = self.stored

    def _cluster(self, _number: int) -> None:
        self.listening, self.reported = self.asked, True

    def _endpoint(self, number: int) -> None:
        # The endpoint follows the published address, which is part of the status.
        self.endpoints[number] = choose_protocol(self.stored.phase)

    def _request(self, number: int) -> None:
        self.requests.append((self.endpoints[number], self.now + REQUEST))


@settings(max_examples=300)
@given(EVENTS)
def test_no_request_uses_a_protocol_that_is_closed(events: list[Event]) -> None:
    world = World(wanted=True, certified=True)
    for event in events:
        world.do(event)


def _through(world: World, phase: MutualTLSPhase) -> list[MutualTLSPhase]:
    """Return the phases on the way to one, while everything acts as it should."""
    passed = [world.stored.phase]
    for _ in range(200):
        world.do(("round", 0))
        world.do(("wait", 60))
        if world.stored.phase is not passed[-1]:
            passed.append(world.stored.phase)
        if passed[-1] is phase:
            return passed
    raise AssertionError(f"it stays in {passed[-1]}")


def test_it_is_turned_on_and_off_in_the_order_of_the_phases() -> None:
    world = World(wanted=True, certified=True)
    on = _through(world, MutualTLSPhase.REQUIRED)
    world.wanted = False
    off = _through(world, MutualTLSPhase.PLAIN)
    assert (on, off) == (list(MutualTLSPhase), list(reversed(MutualTLSPhase)))
