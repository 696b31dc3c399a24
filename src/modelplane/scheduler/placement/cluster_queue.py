"""The clusters of one pass, by the rank that the deployment's policy gives them; on a tie by name.

A cluster that refuses is not tried again in the same pass, in which free nodes only decrease. So the clusters
wait in a heap, and only those that are tried cost time. The first rank of a cluster counts the devices that a
place there strands at the least, whatever the selectors accept. When its turn comes, its rank is that of the
least cost that a place there can have, and at last the true one. Of the clusters with the same first rank,
only the next one by name is in the heap, because most of a large fleet are not tried at all.
"""

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Final, TypeAlias

from modelplane.api.rejected import Rejected
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.placement.cost import Cost, count_least_stranded
from modelplane.scheduler.placement.placement_policy import rank_cluster
from modelplane.scheduler.placement.pool_choice import Offer
from modelplane.scheduler.placement.pool_rejections import Excluded, PoolRejections
from modelplane.scheduler.types import Cluster

Rank: TypeAlias = tuple[float, ...]

_LAST: Final[Rank] = (math.inf,)
"""The rank of a cluster that has no place."""


class ClusterQueue:
    """Clusters that may take a replica. `occupied` names the cluster of each replica that stays."""

    def __init__(self, state: CycleState, occupied: Iterable[str]) -> None:
        self._state = state
        self._load = dict(Counter(occupied))
        self._least: dict[str, Cost | None] = {}
        self._offers: dict[str, Offer] = {}
        self._excluded: list[Excluded] = []
        self._full: list[Cluster] = []
        self._ranks: dict[tuple[int, Cost], Rank] = {}
        self._first: dict[int, Cost] = {}
        self._heap = [
            (self._first_rank(load, state.clusters[name].smallest_node), name)
            for name, load in self._load.items()
            if name in state.clusters
        ]
        heapq.heapify(self._heap)
        self._tried = set(self._load)
        self._untried: defaultdict[int, list[str]] = defaultdict(list)
        for name, cluster in state.clusters.items():
            self._untried[cluster.smallest_node].append(name)
        for smallest_node, names in self._untried.items():
            if self._load:
                names[:] = (name for name in names if name not in self._load)
            names.sort(reverse=True)
            self._follow(smallest_node)

    def find_best(self) -> tuple[Cluster, Offer] | None:
        """Return the first cluster and its place for a replica; None if no cluster has one."""
        while self._heap:
            before, name = self._heap[0]
            cluster = self._state.clusters[name]
            if name not in self._tried:
                self._tried.add(name)
                self._follow(cluster.smallest_node)
            if name not in self._offers and self._state.ledger.is_full(cluster):
                self._full.append(cluster)
                heapq.heappop(self._heap)
                continue
            rank, offer = self._improved(cluster, before)
            if isinstance(offer, (Rejected, PoolRejections)):
                self.exclude(offer)
            elif rank != before:
                heapq.heapreplace(self._heap, (rank, name))
            elif offer is not None:
                return cluster, offer
        return None

    def take(self) -> None:
        """Count a replica on the first cluster, whose capacity has been charged."""
        _, name = self._heap[0]
        self._load[name] = self._load.get(name, 0) + 1
        del self._offers[name]
        heapq.heapreplace(self._heap, (self._rank(name, self._least[name]), name))

    def exclude(self, why: Rejected | PoolRejections) -> None:
        """Take the first cluster out."""
        _, name = heapq.heappop(self._heap)
        self._excluded.append((self._state.clusters[name], why))

    def list_excluded(self) -> tuple[Excluded, ...]:
        """Return every cluster that is out. The reason of a full one is computed only now."""
        offers = ((cluster, self._state.find_offer(cluster)) for cluster in self._full)
        full = ((cluster, offer) for cluster, offer in offers if not isinstance(offer, Offer))
        return (*self._excluded, *full)

    def list_next(self, most: int) -> list[Cluster]:
        """Return the clusters that would be tried first, as far as their ranks are known."""
        untried = (
            (self._first_rank(0, smallest_node), name)
            for smallest_node, names in self._untried.items()
            for name in names
        )
        return [self._state.clusters[name] for _, name in heapq.nsmallest(most, chain(self._heap, untried))]

    def _follow(self, smallest_node: int) -> None:
        """Put the next of the clusters with such nodes into the heap."""
        if names := self._untried[smallest_node]:
            heapq.heappush(self._heap, (self._first_rank(0, smallest_node), names.pop()))

    def _improved(
        self, cluster: Cluster, before: Rank
    ) -> tuple[Rank, Offer | Rejected | PoolRejections | None]:
        """Return a truer rank of a cluster, and its offer once the rank is the true one."""
        name = cluster.name
        if name not in self._least:
            self._least[name] = self._state.chooser.find_least_cost(cluster)
            rank = self._rank(name, self._least[name])
            if rank != before:
                return rank, None
        offer = self._offers.get(name) or self._state.find_offer(cluster)
        if not isinstance(offer, Offer):
            return _LAST, offer
        self._offers[name] = offer
        return self._rank(name, offer.cost), offer

    def _first_rank(self, load: int, smallest_node: int) -> Rank:
        least = self._first.get(smallest_node)
        if least is None:
            engines = self._state.deployment.engines
            least = self._first[smallest_node] = Cost(count_least_stranded(smallest_node, engines))
        return self._ranked(load, least)

    def _rank(self, name: str, cost: Cost | None) -> Rank:
        return _LAST if cost is None else self._ranked(self._load.get(name, 0), cost)

    def _ranked(self, load: int, cost: Cost) -> Rank:
        """Return a rank, the same object for the same rank, because such are compared sooner."""
        rank = self._ranks.get((load, cost))
        if rank is None:
            rank = self._ranks[load, cost] = rank_cluster(self._state.deployment.policy, load, cost)
        return rank
