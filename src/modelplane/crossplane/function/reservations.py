"""Reservations: replicas that were composed a moment ago and are not listed yet.

Placements are decided one at a time, each with the previous ones in view. From the answer that places a
replica until the replica is listed, only this process knows that its capacity is taken. If another process
answers, or this one was restarted, two deployments can take the same capacity: then the scheduler has the
newer one yield.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from modelplane.api.meta import Object

_PATIENCE_S = 30.0
"""Time within which a new replica is expected to be listed; Crossplane writes it within a second."""


@dataclass(frozen=True, slots=True)
class _Reserved:
    replicas: tuple[Object, ...]
    until: float


class Reservations:
    """The new replicas of each deployment that are not listed yet."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.turn = Lock()
        """Held from reading the capacity that is taken until the new replicas are reserved."""
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
        """Release a deployment's reservation: its replicas are listed, or no longer wanted."""
        self._by_owner.pop(uid, None)

    def hold(self, uid: str, replicas: tuple[Object, ...]) -> None:
        """Replace a deployment's reservation."""
        now = self._clock()
        for owner, held in tuple(self._by_owner.items()):
            if owner == uid or held.until <= now:
                del self._by_owner[owner]
        if uid and replicas:
            self._by_owner[uid] = _Reserved(replicas, now + _PATIENCE_S)


def _name(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
