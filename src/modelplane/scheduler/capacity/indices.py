"""Indices of a deployment's replicas on one cluster.

An index is used once per cluster, also while its replica is being removed, because names are derived from it.
"""

from collections.abc import Iterable

from modelplane.scheduler.types import Replica


class Indices:
    """The numbers taken so far, by cluster."""

    def __init__(self, replicas: Iterable[Replica]) -> None:
        self._taken: dict[str, set[int]] = {}
        self._held: set[tuple[str, int]] = set()
        for replica in replicas:
            self._taken.setdefault(replica.cluster, set()).add(replica.index)

    def keep(self, replica: Replica) -> int:
        """Return the replica's own index, or a new one if another replica has it already."""
        place = (replica.cluster, replica.index)
        if place in self._held:
            return self.take(replica.cluster)
        self._held.add(place)
        return replica.index

    def take(self, cluster: str) -> int:
        """Return the lowest number that is free on a cluster, and take it."""
        taken = self._taken.setdefault(cluster, set())
        index = next(number for number in range(len(taken) + 1) if number not in taken)
        taken.add(index)
        return index
