"""Rearrangement: cheaper places for the new replicas of one deployment, all of them together.

Placed one after the other, each replica gets the cheapest place that is left. Of replicas with one engine, no
other placement is cheaper. With several engines, an earlier replica may take what only a later one needs. The
clusters in question are then searched again: the cheapest places for each number of replicas on each of them,
and of these the cheapest sum.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.filters import admit
from modelplane.scheduler.free_capacity import FreeCapacity, estimate_steps
from modelplane.scheduler.placement.pool_choice import Offer, Way
from modelplane.scheduler.search.fit import Amounts, take_options
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Cluster

_MOST_REPLICAS: Final = 16
"""New replicas up to which they are rearranged; of more, each is a small part of the cost."""

Place: TypeAlias = tuple[Cluster, Offer]
_Sums: TypeAlias = dict[int, tuple[Amounts, tuple[int, ...]]]
"""The least cost of a number of replicas, and how many of them are on each cluster."""
_Branch: TypeAlias = tuple[int, Amounts, tuple[Way, ...], Sequence[FreeCapacity]]
"""A beginning of a choice: the first way that may follow, the cost, the ways, and what they leave."""


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
    sums = _least(searches, wanted)
    before = _added(*((offer.cost.unpriced, offer.cost.price) for _, offer in placed))
    for count in range(wanted, len(placed) - 1, -1):
        cost, numbers = sums.get(count, ((), ()))
        if not numbers or (most is not None and (cost[0] or cost[1] > most)):
            continue
        if count == len(placed) and cost[:2] >= before:
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


def _least(searches: Sequence["_Search"], count: int) -> _Sums:
    """Return the least cost of each number of replicas on all clusters."""
    sums: _Sums = {0: ((0, 0, 0), ())}
    for search in searches:
        joined: _Sums = {}
        costs = search.list_costs(count)
        for placed, (cost, numbers) in sums.items():
            for more, further in enumerate(costs[: count - placed + 1]):
                total = (_added(cost, further), (*numbers, more))
                joined[placed + more] = min(joined.get(placed + more, total), total)
        sums = joined
    return sums


def _added(*parts: Amounts) -> Amounts:
    return tuple(map(sum, zip(*parts, strict=True)))


class _Search(msgspec.Struct):
    """The cheapest places for some replicas on one cluster."""

    cluster: Cluster
    capacities: Sequence[FreeCapacity]
    ways: Sequence[Way]
    budget: SearchBudget
    _found: dict[int, tuple[Way, ...] | None] = {}

    def list_costs(self, most: int) -> list[Amounts]:
        """Return the least cost of no replica, one, and so on, up to as many as fit."""
        costs: list[Amounts] = []
        for count in range(most + 1):
            ways = self.find_cheapest(count)
            if ways is None:
                break
            costs.append(_added((0, 0, 0), *(way.amounts for way in ways)))
        return costs

    def find_cheapest(self, count: int) -> tuple[Way, ...] | None:
        """Return the cheapest ways to place so many replicas; None if none is found."""
        if count not in self._found:
            self._found[count] = self._cheapest(count)
        return self._found[count]

    def _cheapest(self, count: int) -> tuple[Way, ...] | None:
        best: tuple[Amounts, tuple[Way, ...]] | None = None
        allowed = self.budget.allowance
        # A way is followed by itself and later ones only, so that no choice is tried twice.
        stack: list[_Branch] = [(0, (0, 0, 0), (), self.capacities)]
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
                least = _added(cost, tuple(amount * missing for amount in way.amounts))
                if best is not None and least >= best[0]:
                    break
                spent += 1 + sum(
                    estimate_steps(capacities[pool]) for option in way.options for pool, _ in option.loads
                )
                smaller = take_options(capacities, way.options)
                if smaller is not None:
                    branches.append((position, _added(cost, way.amounts), (*chosen, way), smaller))
            stack.extend(reversed(branches))
        self.budget.spend(spent)
        return None if best is None else best[1]
