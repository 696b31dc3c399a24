"""Free nodes of every pool: what is published, less what replicas hold.

One rule: nodes are counted whole. A member costs one node for each of its pods and copies, and nothing when
it claims no device; a replica holds what it was placed with, whatever its deployment says now.
"""

from collections import Counter
from collections.abc import Iterable

from modelplane.scheduler.cluster import Cluster
from modelplane.scheduler.replica import PlacedEngine, Replica


def held(engines: Iterable[PlacedEngine]) -> Counter[str]:
    """Return the nodes that placed engines hold, by pool."""
    nodes: Counter[str] = Counter()
    for engine in engines:
        for member in engine.members:
            if member.claims:
                nodes[member.pool] += member.pods * engine.copies
    return nodes


class Ledger:
    """What is held on every cluster, by pool."""

    def __init__(self, replicas: Iterable[Replica]) -> None:
        """Charge what exists; a replica that is being deleted holds its nodes until it is gone."""
        self._held: dict[str, Counter[str]] = {}
        for replica in replicas:
            self.charge(replica.cluster, replica.engines)

    def charge(self, cluster: str, engines: Iterable[PlacedEngine]) -> None:
        """Take nodes."""
        self._held.setdefault(cluster, Counter()).update(held(engines))

    def refund(self, cluster: str, engines: Iterable[PlacedEngine]) -> None:
        """Give nodes back."""
        self._held.setdefault(cluster, Counter()).subtract(held(engines))

    def free(self, cluster: Cluster) -> list[int]:
        """Return the free nodes of each pool, in published order; below zero where too many are held."""
        taken = self._held.get(cluster.name)
        if taken is None:
            return [pool.nodes for pool in cluster.pools]
        return [pool.nodes - taken[pool.name] for pool in cluster.pools]
