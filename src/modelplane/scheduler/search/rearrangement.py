"""Rearrangement: cheaper places for the new replicas of one deployment, all of them together.

Placed one after the other, each replica gets the cheapest place that is left. Of replicas with one engine, no
other placement is cheaper. With several engines, an earlier replica may take what only a later one needs. The
clusters in question are then searched again: the cheapest places for each number of replicas on each of them,
and of these the cheapest sum. A way is a choice of pools for the engines of one replica on a cluster.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.filters import admit
from modelplane.scheduler.free_capacity import FreeCapacity, estimate_steps
from modelplane.scheduler.placement.cost import sum_costs
from modelplane.scheduler.placement.pool_choice import Offer, Way
from modelplane.scheduler.search.fit import Amounts, take_options
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Cluster

_MOST_REPLICAS: Final = 16
"""New replicas up to which they are rearranged; of more, each is a small part of the cost."""

Place: TypeAlias = tuple[Cluster, Offer]


class _Total(NamedTuple):
    """Cost of replicas together, in the order in which ``rank_choice`` compares it for Cheapest."""

    unpriced: int = 0
    price: int = 0
    stranded: int = 0


_Distributions: TypeAlias = dict[int, tuple[_Total, tuple[int, ...]]]
"""By the number of replicas: their least cost, and how many of them are on each cluster."""
_Branch: TypeAlias = tuple[int, _Total, tuple[Way, ...], Sequence[FreeCapacity]]
"""A beginning of a choice: the first way that may follow, the cost, the ways, and the capacity left."""


def may_be_cheaper(state: CycleState, shortfall: int) -> bool:
    """Return True if other places may be cheaper together than those that are chosen one by one."""
    deployment = state.deployment
    several = len(deployment.engines) > 1 or any(len(engine.members) > 1 for engine in deployment.engines)
    return deployment.policy is PlacementPolicy.CHEAPEST and several and 1 < shortfall <= _MOST_REPLICAS


def find_rearrangement(
    state: CycleState, placed: Sequence[Place], others: Iterable[Cluster], wanted: int, most: int | None
) -> list[Place] | None:
    """Return cheaper places for the replicas, or places for more of them; None if none were found.

    The capacity of the present places is charged. `others` are further clusters to try; `most` is the highest
    price of all replicas together.
    """
    clusters = {cluster.name: cluster for cluster, _ in placed}
    clusters |= {other.name: other for other in others if not admit(state.deployment, other)}
    searches = [_search(state, cluster, placed) for cluster in clusters.values()]
    distributions = _distribute(searches, wanted)
    before = sum_costs(offer.cost for _, offer in placed)
    for count in range(wanted, len(placed) - 1, -1):
        total, numbers = distributions.get(count, (_Total(), ()))
        if not numbers or (most is not None and (total.unpriced or total.price > most)):
            continue
        if count == len(placed) and (total.unpriced, total.price) >= (before.unpriced, before.price):
            return None
        return [
            (search.cluster, state.chooser.build_offer(search.cluster, way.options))
            for search, number in zip(searches, numbers, strict=True)
            for way in search.find_cheapest(number) or ()
        ]
    return None


def _search(state: CycleState, cluster: Cluster, placed: Sequence[Place]) -> "_Search":
    engines = [engine for there, offer in placed if there.name == cluster.name for engine in offer.engines]
    capacities = state.ledger.list_capacities(cluster, without=engines)
    return _Search(cluster, capacities, state.chooser.list_ways(cluster), state.budget)


def _distribute(searches: Sequence["_Search"], count: int) -> _Distributions:
    """Return the cheapest distribution over all clusters of each number of replicas up to `count`."""
    best: _Distributions = {0: (_Total(), ())}
    for search in searches:
        joined: _Distributions = {}
        costs = search.list_costs(count)
        for placed, (cost, numbers) in best.items():
            for more, further in enumerate(costs[: count - placed + 1]):
                distribution = (_add(cost, further), (*numbers, more))
                joined[placed + more] = min(joined.get(placed + more, distribution), distribution)
        best = joined
    return best


def _add(*parts: Amounts) -> _Total:
    return _Total(*map(sum, zip(*parts, strict=True)))


class _Search(msgspec.Struct):
    """The cheapest places for some replicas on one cluster."""

    cluster: Cluster
    capacities: Sequence[FreeCapacity]
    ways: Sequence[Way]
    budget: SearchBudget
    _cheapest_by_count: dict[int, tuple[Way, ...] | None] = {}  # each search has its own

    def list_costs(self, most: int) -> list[_Total]:
        """Return the least cost of no replica, one, and so on, up to as many as fit."""
        costs: list[_Total] = []
        for count in range(most + 1):
            ways = self.find_cheapest(count)
            if ways is None:
                break
            costs.append(_add(_Total(), *(way.amounts for way in ways)))
        return costs

    def find_cheapest(self, count: int) -> tuple[Way, ...] | None:
        """Return the cheapest ways to place so many replicas; None if none is found."""
        if count not in self._cheapest_by_count:
            self._cheapest_by_count[count] = self._search_depth_first(count)
        return self._cheapest_by_count[count]

    def _search_depth_first(self, count: int) -> tuple[Way, ...] | None:
        """Try the cheapest ways first, and skip those that can only be dearer than the best so far."""
        best: tuple[_Total, tuple[Way, ...]] | None = None
        allowed = self.budget.allowance
        # A way is followed by itself and later ones only, so that no choice is tried twice.
        stack: list[_Branch] = [(0, _Total(), (), self.capacities)]
        spent = 0
        while stack and spent < allowed:
            at, cost, chosen, capacities = stack.pop()
            missing = count - len(chosen)
            if not missing:
                if best is None or cost < best[0]:
                    best = (cost, chosen)
                continue
            branches = []
            for position in range(at, len(self.ways)):
                way = self.ways[position]
                least = _add(cost, tuple(amount * missing for amount in way.amounts))
                if best is not None and least >= best[0]:
                    break
                spent += 1 + sum(
                    estimate_steps(capacities[pool]) for option in way.options for pool, _ in option.loads
                )
                smaller = take_options(capacities, way.options)
                if smaller is not None:
                    branches.append((position, _add(cost, way.amounts), (*chosen, way), smaller))
            stack.extend(reversed(branches))
        self.budget.spend(spent)
        return None if best is None else best[1]
