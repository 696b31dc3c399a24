"""Choice of a cluster for each missing replica, one at a time: the cluster that is first by the policy.

By price, they are then placed together where that is cheaper. Where each engine goes within a cluster is
chosen in ``pool_choice``.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from modelplane.api import money
from modelplane.api.rejected import Rejected
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.placement.capacity_type import CapacityType
from modelplane.scheduler.placement.cluster_queue import ClusterQueue
from modelplane.scheduler.placement.cost import Cost
from modelplane.scheduler.placement.pool_choice import Offer
from modelplane.scheduler.placement.pool_rejections import Excluded
from modelplane.scheduler.placement.spot import find_spot_pools, plan_steps
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.search import rearrangement
from modelplane.scheduler.search.rearrangement import Place
from modelplane.scheduler.types import PlacedEngine, Replica


class Indices:
    """The indices of a deployment's replicas that are taken so far, by cluster.

    An index is used once per cluster, also while its replica is being removed, because names are derived from
    it.
    """

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


Occupied: TypeAlias = tuple[str, tuple[PlacedEngine, ...]]
"""The cluster of a replica, and its engines there."""


class CostLimit:
    """The cost of the replicas that stay, and of those that are added. Those that leave do not count."""

    def __init__(self, state: CycleState, staying: Iterable[Occupied]) -> None:
        self._most = state.deployment.most_per_hour
        self._currency = state.currency
        self.spent = 0
        if self._most is not None:
            self.spent = sum(
                state.ledger.compute_cost(state.clusters[cluster], engines, self._currency).price
                for cluster, engines in staying
            )

    @property
    def left(self) -> int | None:
        """Amount that may be spent; None without a limit."""
        return None if self._most is None else self._most - self.spent

    def check(self, cost: Cost) -> Rejected | None:
        """Return why a replica may not be added; None if it may."""
        if self._most is None:
            return None
        if cost.unpriced:
            return Rejected(Reason.NO_PRICE, self._currency)
        needed = self.spent + cost.price
        if needed <= self._most:
            return None
        return Rejected(
            Reason.TOO_EXPENSIVE,
            detail=f"{money.format_amount(cost.price)} {self._currency} per hour, but only "
            f"{money.format_amount(max(self._most - self.spent, 0))} remain",
            remedy=f"raise maxCostPerHour to {money.format_amount(needed)}",
        )


_OTHERS: Final = 8
"""Clusters without a new replica that may be cheaper than those that have one."""


class New(msgspec.Struct, frozen=True):
    """A replica to be made."""

    cluster: str
    index: int
    engines: tuple[PlacedEngine, ...]


class Filled(msgspec.Struct, frozen=True):
    """The placed replicas; if some are missing, also why each cluster takes none, and the pools tried."""

    placed: tuple[New, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    capacity_type: CapacityType = CapacityType.ON_DEMAND


def choose_clusters(
    state: CycleState, shortfall: int, indices: Indices, staying: Sequence[Occupied]
) -> Filled:
    """Choose clusters for up to `shortfall` new replicas. `staying` count towards the spread and the cost."""
    if shortfall <= 0:
        return Filled()
    occupied = [cluster for cluster, _ in staying]
    on_demand = sum(
        not find_spot_pools(state.clusters[cluster], engines)
        for cluster, engines in (staying if state.deployment.spot else ())
    )
    cost_limit = CostLimit(state, staying)
    placed: list[New] = []
    missing: list[Filled] = []
    for count, capacity_types in plan_steps(state.deployment, shortfall, on_demand):
        left = count
        excluded: tuple[Excluded, ...] = ()
        for capacity_type in capacity_types:
            places, excluded = _step(state.limit_to(capacity_type), left, occupied, cost_limit)
            placed += [New(place.name, indices.take(place.name), offer.engines) for place, offer in places]
            occupied += [place.name for place, _ in places]
            left -= len(places)
            if not left:
                break
        if left:
            missing.append(Filled((), excluded, capacity_types[-1]))
    return replace(missing[0] if missing else Filled(), placed=tuple(placed))


def _step(
    state: CycleState, count: int, occupied: Sequence[str], cost_limit: CostLimit
) -> tuple[list[Place], tuple[Excluded, ...]]:
    """Place up to so many replicas; if some are missing, also return why each cluster takes none."""
    queue = ClusterQueue(state, occupied)
    most, before = cost_limit.left, cost_limit.spent
    places, excluded = _one_by_one(state, queue, cost_limit, count)
    if rearrangement.may_be_cheaper(state, count):
        better = rearrangement.find_rearrangement(state, places, queue.list_next(_OTHERS), count, most)
        if better is not None and _replace(state, places, better):
            places = better
            cost_limit.spent = before + sum(offer.cost.price for _, offer in places)
            # What only the cost or a quota refuses, the clusters themselves do not.
            offers = ((cluster, state.find_offer(cluster)) for cluster in state.clusters.values())
            refused = ((cluster, offer) for cluster, offer in offers if not isinstance(offer, Offer))
            excluded = (tuple(refused) or excluded) if len(places) < count else ()
    return places, excluded


def _one_by_one(
    state: CycleState, queue: ClusterQueue, cost_limit: CostLimit, shortfall: int
) -> tuple[list[Place], tuple[Excluded, ...]]:
    """Give each replica the first cluster by the policy; if one finds none, also return why."""
    places: list[Place] = []
    while len(places) < shortfall:
        best = queue.find_best()
        if best is None:
            return places, queue.list_excluded()
        cluster, offer = best
        if rejected := cost_limit.check(offer.cost) or state.quotas.check(cluster, offer.engines):
            queue.exclude(rejected)
            continue
        cost_limit.spent += offer.cost.price
        _charge(state, [best])
        places.append(best)
        queue.take()
    return places, ()


def _replace(state: CycleState, before: Sequence[Place], after: Sequence[Place]) -> bool:
    """Charge other places instead, and return True; if a quota refuses one of them, change nothing."""
    _refund(state, before)
    for at, (cluster, offer) in enumerate(after):
        if state.quotas.check(cluster, offer.engines):
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
