"""Replicas that were composed a moment ago and that nobody has seen yet.

Placements are decided one at a time, each knowing the ones before it. Between the answer
that places a replica and the moment it can be listed, only this process knows that its
room is taken. Where another process answers, or this one was restarted, two deployments
may still take the same room: then the newer one yields, which the scheduler sees to.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from modelplane.compose.composition import Object

_PATIENCE_S = 30.0
"""How long a replica is expected to turn up; Crossplane writes it within a second."""


@dataclass(frozen=True, slots=True)
class _Reserved:
    replicas: tuple[Object, ...]
    until: float


class Reservations:
    """What each deployment has been given, until it shows."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.turn = Lock()
        """Held by whoever takes room, from looking at what is taken until it has said what it takes."""
        self._clock = clock
        self._by_owner: dict[str, _Reserved] = {}

    def others(self, uid: str, listed: Iterable[Object]) -> tuple[Object, ...]:
        """Return the replicas of other deployments that are not listed yet."""
        now = self._clock()
        known = {_name(item) for item in listed}
        return tuple(
            replica
            for owner, held in tuple(self._by_owner.items())
            if owner != uid and held.until > now
            for replica in held.replicas
            if _name(replica) not in known
        )

    def release(self, uid: str) -> None:
        """Forget what a deployment has been given: it has seen all of it, or wants it no more."""
        self._by_owner.pop(uid, None)

    def hold(self, uid: str, replicas: tuple[Object, ...]) -> None:
        """Remember what a deployment has been given, in place of what it was given before."""
        now = self._clock()
        for owner, held in tuple(self._by_owner.items()):
            if owner == uid or held.until <= now:
                del self._by_owner[owner]
        if uid and replicas:
            self._by_owner[uid] = _Reserved(replicas, now + _PATIENCE_S)


def _name(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
