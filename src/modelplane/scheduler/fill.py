"""Placement of missing replicas, one at a time, each on the cluster that is first by the policy.

By price, they are then placed together where that is cheaper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modelplane.scheduler import rearrangement
from modelplane.scheduler.cluster_queue import ClusterQueue, Refused
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.indices import Indices
from modelplane.scheduler.placer import Offer
from modelplane.scheduler.rearrangement import Place
from modelplane.scheduler.retention import Kept
from modelplane.scheduler.spending import Spending
from modelplane.scheduler.types import PlacedEngine

_OTHERS: Final = 8
"""Clusters without a new replica that may be cheaper than those that have one."""


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


def fill(
    state: CycleState, shortfall: int, indices: Indices, staying: Sequence[Kept], *, together: bool = True
) -> Filled:
    """Place up to `shortfall` replicas. `staying` count towards the spread and the cost.

    Without `together`, the places of fewer replicas are among those of more.
    """
    if shortfall <= 0:
        return Filled()
    queue = ClusterQueue(state, (decision.replica.cluster for decision in staying))
    spending = Spending(state, staying)
    most = spending.left
    places, refused = _one_by_one(state, queue, spending, shortfall)
    if together and rearrangement.applies(state, shortfall):
        better = rearrangement.rearranged(state, places, queue.next(_OTHERS), shortfall, most)
        if better is not None and _replace(state, places, better):
            places = better
            # What only the cost or a quota refuses, the clusters themselves do not.
            refused = (_refused(state) or refused) if len(places) < shortfall else ()
    placed = (New(each.name, indices.take(each.name), offer.engines) for each, offer in places)
    return Filled(tuple(placed), refused)


def _one_by_one(
    state: CycleState, queue: ClusterQueue, spending: Spending, shortfall: int
) -> tuple[list[Place], tuple[Refused, ...]]:
    """Give each replica the first cluster by the policy; return the refusals if one finds none."""
    places: list[Place] = []
    while len(places) < shortfall:
        best = queue.best()
        if best is None:
            return places, queue.refused()
        cluster, offer = best
        refusal = spending.refusal(offer.cost) or state.quotas.refusal(cluster, offer.engines)
        if refusal:
            queue.refuse(refusal)
            continue
        spending.add(offer.cost)
        _charge(state, [best])
        places.append(best)
        queue.take()
    return places, ()


def _replace(state: CycleState, before: Sequence[Place], after: Sequence[Place]) -> bool:
    """Charge other places instead, and return True; if a quota refuses one of them, change nothing."""
    _refund(state, before)
    for at, (cluster, offer) in enumerate(after):
        if state.quotas.refusal(cluster, offer.engines):
            _refund(state, after[:at])
            _charge(state, before)
            return False
        _charge(state, [(cluster, offer)])
    return True


def _charge(state: CycleState, places: Sequence[Place]) -> None:
    for cluster, offer in places:
        state.quotas.charge(cluster, offer.engines)
        state.ledger.charge(cluster.name, offer.engines)


def _refund(state: CycleState, places: Sequence[Place]) -> None:
    for cluster, offer in places:
        state.quotas.charge(cluster, offer.engines, -1)
        state.ledger.refund(cluster.name, offer.engines)


def _refused(state: CycleState) -> tuple[Refused, ...]:
    offers = ((cluster, state.offer(cluster)) for cluster in state.clusters.values())
    return tuple(Refused(cluster, said) for cluster, said in offers if not isinstance(said, Offer))
