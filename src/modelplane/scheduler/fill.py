"""Placement of missing replicas, one at a time, each on the cluster that is first by the policy."""

from collections.abc import Sequence
from dataclasses import dataclass

from modelplane.scheduler.cluster_queue import ClusterQueue, Refused
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.indices import Indices
from modelplane.scheduler.retention import Kept
from modelplane.scheduler.spending import Spending
from modelplane.scheduler.types import PlacedEngine


@dataclass(frozen=True, slots=True)
class New:
    """A replica to be made."""

    cluster: str
    index: int
    engines: tuple[PlacedEngine, ...]


@dataclass(frozen=True, slots=True)
class Filled:
    """The placed replicas; if some are missing, also the refusal of every cluster."""

    placed: tuple[New, ...] = ()
    refused: tuple[Refused, ...] = ()


def fill(state: CycleState, shortfall: int, indices: Indices, staying: Sequence[Kept]) -> Filled:
    """Place up to `shortfall` replicas. `staying` count towards the spread and the cost."""
    if shortfall <= 0:
        return Filled()
    queue = ClusterQueue(state, (decision.replica.cluster for decision in staying))
    spending = Spending(state, staying)
    placed: list[New] = []
    while len(placed) < shortfall:
        best = queue.best()
        if best is None:
            return Filled(tuple(placed), queue.refused())
        cluster, offer = best
        refusal = spending.refusal(offer.cost) or state.quotas.refusal(cluster, offer.engines)
        if refusal:
            queue.refuse(refusal)
            continue
        spending.add(offer.cost)
        state.quotas.charge(cluster, offer.engines)
        state.ledger.charge(cluster.name, offer.engines)
        placed.append(New(cluster.name, indices.take(cluster.name), offer.engines))
        queue.take()
    return Filled(tuple(placed))
