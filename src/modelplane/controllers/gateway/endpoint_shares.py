"""Endpoints of each service's route, and what its namespace has left of the maximum.

A service keeps the endpoints that it routes to: no other service takes them. Those that are free go to the
services that wait for them, the oldest first. The gateway's files record the routes, so a restart, an upgrade
from a version without the maximum, and another leader change nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from modelplane.controllers.interests import OwnerKey
from modelplane.gateway.services import MOST_IN_NAMESPACE, EndpointShare


class EndpointShares:
    """Number of endpoints of every service."""

    def __init__(self) -> None:
        self._routed: dict[str, dict[OwnerKey, int]] = {}
        self._totals: Counter[str] = Counter()
        self._waiting: dict[str, set[OwnerKey]] = {}
        self._created: dict[OwnerKey, str] = {}

    def of(self, key: OwnerKey) -> EndpointShare:
        """Return the share of a service."""
        own, _ = self.state(key)
        free = max(MOST_IN_NAMESPACE - self._totals[key.namespace], 0)
        return EndpointShare(own + free, self.is_exceeded(key.namespace) and self._is_beyond(key))

    def _is_beyond(self, key: OwnerKey) -> bool:
        age = self.age(key)
        members = self._routed.get(key.namespace, {}).items()
        return sum(routed for other, routed in members if self.age(other) <= age) > MOST_IN_NAMESPACE

    def is_exceeded(self, namespace: str) -> bool:
        """Return True if the services of a namespace keep more endpoints than the maximum."""
        return self._totals[namespace] > MOST_IN_NAMESPACE

    def state(self, key: OwnerKey) -> tuple[int, bool]:
        """Return the number of endpoints that a service routes to, and whether it waits for more."""
        namespace = key.namespace
        return self._routed.get(namespace, {}).get(key, 0), key in self._waiting.get(namespace, ())

    def members(self, namespace: str) -> Iterator[OwnerKey]:
        """Return the services of a namespace that have endpoints."""
        return iter(tuple(self._routed.get(namespace, ())))

    def age(self, key: OwnerKey) -> tuple[str, OwnerKey]:
        """Return a value by which older services come first."""
        return self._created.get(key, ""), key

    def note(self, key: OwnerKey, created: str) -> None:
        """Note when a service was created."""
        self._created[key] = created

    def restore(self, routed: Mapping[OwnerKey, int]) -> None:
        """Take over the numbers of an earlier process."""
        for key, number in routed.items():
            self._set(key, number)

    def keep_only(self, keys: Collection[OwnerKey]) -> None:
        """Forget services that an earlier process had and that are gone."""
        for key in [member for members in self._routed.values() for member in members if member not in keys]:
            self.forget(key)

    def set(self, key: OwnerKey, number: int, *, waits: bool) -> None:
        """Note the number of endpoints that a service routes to, and whether it waits for more."""
        self._set(key, number)
        if waits:
            self._waiting.setdefault(key.namespace, set()).add(key)

    def _set(self, key: OwnerKey, number: int) -> None:
        members = self._routed.setdefault(key.namespace, {})
        self._totals[key.namespace] += number - members.pop(key, 0)
        if number:
            members[key] = number
        if not members:
            del self._routed[key.namespace], self._totals[key.namespace]

    def stop_waiting(self, key: OwnerKey) -> None:
        """Note that a service is being composed, and no longer waits."""
        if waiting := self._waiting.get(key.namespace):
            waiting.discard(key)
            if not waiting:
                del self._waiting[key.namespace]

    def forget(self, key: OwnerKey) -> None:
        """Drop a deleted service."""
        self._set(key, 0)
        self.stop_waiting(key)
        self._created.pop(key, None)

    def next(self, namespace: str) -> OwnerKey | None:
        """Return the oldest service that waits, if the namespace has endpoints left for it."""
        if self._totals[namespace] >= MOST_IN_NAMESPACE:
            return None
        return min(self._waiting.get(namespace, ()), key=self.age, default=None)
