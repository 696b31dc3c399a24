"""Placement of missing replicas, one at a time.

The cluster with the fewest replicas of this deployment gets the next one; on a tie, the first by name.

A cluster that refuses is not tried again in the same pass, in which free nodes only decrease. So the clusters
wait in a heap, and only those that are tried cost time. The reason of a full cluster is computed only for a
diagnosis.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.filters import admit
from modelplane.scheduler.indices import Indices
from modelplane.scheduler.misfit import Misfit
from modelplane.scheduler.types import Cluster, PlacedEngine, Replica
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


def fill(state: CycleState, shortfall: int, indices: Indices, staying: Iterable[Replica]) -> Filled:
    """Place up to `shortfall` replicas. `staying` count towards the spread."""
    if shortfall <= 0:
        return Filled()
    load = dict.fromkeys(state.clusters, 0)
    for replica in staying:
        load[replica.cluster] += 1
    heap = [(count, name) for name, count in load.items()]
    heapq.heapify(heap)

    placed: list[New] = []
    refused: list[Refused] = []
    full: list[Cluster] = []
    while heap and len(placed) < shortfall:
        count, name = heap[0]
        cluster = state.clusters[name]
        if state.ledger.full(cluster):
            heapq.heappop(heap)
            full.append(cluster)
            continue
        verdict = _try(state, cluster)
        if isinstance(verdict, (Rejected, Misfit)):
            heapq.heappop(heap)
            refused.append(Refused(cluster, verdict))
            continue
        state.ledger.charge(name, verdict)
        placed.append(New(name, indices.take(name), verdict))
        heapq.heapreplace(heap, (count + 1, name))
    if len(placed) == shortfall:
        return Filled(tuple(placed))
    for cluster in full:
        verdict = _try(state, cluster)
        if isinstance(verdict, (Rejected, Misfit)):
            refused.append(Refused(cluster, verdict))
    return Filled(tuple(placed), tuple(refused))


def _try(state: CycleState, cluster: Cluster) -> tuple[PlacedEngine, ...] | Rejected | Misfit:
    verdict = admit(state.deployment, cluster)
    if isinstance(verdict, Rejected):
        return verdict
    return state.placer.place(cluster, state.ledger.capacities(cluster))
