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
        """Held by whoever decides, from looking at what is taken until it has said what it takes."""
        self._clock = clock
        self._by_owner: dict[str, _Reserved] = {}

    def others(self, uid: str, listed: Iterable[Object]) -> tuple[Object, ...]:
        """Return the replicas of other deployments that are not listed yet."""
        now = self._clock()
        self._by_owner = {owner: held for owner, held in self._by_owner.items() if held.until > now}
        known = {_name(item) for item in listed}
        return tuple(
            replica
            for owner, held in self._by_owner.items()
            if owner != uid
            for replica in held.replicas
            if _name(replica) not in known
        )

    def hold(self, uid: str, replicas: tuple[Object, ...]) -> None:
        """Remember what a deployment has been given, in place of what it was given before."""
        self._by_owner.pop(uid, None)
        if uid and replicas:
            self._by_owner[uid] = _Reserved(replicas, self._clock() + _PATIENCE_S)


def _name(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
