"""Placement of missing replicas, one at a time.

The cluster with the lowest rank by the deployment's policy gets the next one; on a tie, the first by name.

A cluster that refuses is not tried again in the same pass, in which free nodes only decrease. So the clusters
wait in a heap, and only those that are tried cost time: the first rank of each is that of a place that costs
nothing, and its true rank is found when its turn comes. The reason of a full cluster is computed only for
a diagnosis.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from modelplane.scheduler.cost import NOTHING
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.filters import admit
from modelplane.scheduler.indices import Indices
from modelplane.scheduler.misfit import Misfit
from modelplane.scheduler.placer import Offer
from modelplane.scheduler.policy import between_clusters
from modelplane.scheduler.retention import Kept
from modelplane.scheduler.spending import Spending
from modelplane.scheduler.types import Cluster, PlacedEngine
from modelplane.scheduler.verdict import Rejected


@dataclass(frozen=True, slots=True)
class New:
    """A replica to be made."""

    cluster: str
    index: int
    engines: tuple[PlacedEngine, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A cluster that accepted no (further) replica, and its refusal."""

    cluster: Cluster
    refusal: Rejected | Misfit


@dataclass(frozen=True, slots=True)
class Filled:
    """The placed replicas; if some are missing, also the refusal of every cluster."""

    placed: tuple[New, ...] = ()
    refused: tuple[Refused, ...] = ()


def fill(state: CycleState, shortfall: int, indices: Indices, staying: Sequence[Kept]) -> Filled:
    """Place up to `shortfall` replicas. `staying` count towards the spread and the cost."""
    if shortfall <= 0:
        return Filled()
    policy = state.deployment.policy
    load = Counter(decision.replica.cluster for decision in staying)
    spending = Spending(state, staying)
    heap = [(between_clusters(policy, load[name], NOTHING), name) for name in state.clusters]
    heapq.heapify(heap)

    offers: dict[str, Offer] = {}
    placed: list[New] = []
    refused: list[Refused] = []
    full: list[Cluster] = []
    while heap and len(placed) < shortfall:
        rank, name = heap[0]
        cluster = state.clusters[name]
        offer = offers.get(name)
        if offer is None:
            if state.ledger.full(cluster):
                heapq.heappop(heap)
                full.append(cluster)
                continue
            verdict = _try(state, cluster)
            if not isinstance(verdict, Offer):
                heapq.heappop(heap)
                refused.append(Refused(cluster, verdict))
                continue
            offers[name] = offer = verdict
            if (known := between_clusters(policy, load[name], offer.cost)) != rank:
                heapq.heapreplace(heap, (known, name))
                continue
        if refusal := spending.refusal(offer.cost):
            heapq.heappop(heap)
            refused.append(Refused(cluster, refusal))
            continue
        spending.add(offer.cost)
        state.ledger.charge(name, offer.engines)
        placed.append(New(name, indices.take(name), offer.engines))
        load[name] += 1
        del offers[name]
        heapq.heapreplace(heap, (between_clusters(policy, load[name], NOTHING), name))
    if len(placed) == shortfall:
        return Filled(tuple(placed))
    for cluster in full:
        verdict = _try(state, cluster)
        if not isinstance(verdict, Offer):
            refused.append(Refused(cluster, verdict))
    return Filled(tuple(placed), tuple(refused))


def _try(state: CycleState, cluster: Cluster) -> Offer | Rejected | Misfit:
    verdict = admit(state.deployment, cluster)
    if isinstance(verdict, Rejected):
        return verdict
    return state.placer.offer(cluster, state.ledger.capacities(cluster))
