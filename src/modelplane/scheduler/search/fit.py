"""Choices of an option for each engine that fit together: the first one, or that of the least cost."""

import heapq
from collections.abc import Sequence

from modelplane.scheduler.free_capacity import FreeCapacity, estimate_steps
from modelplane.scheduler.placement.engine_options import Option
from modelplane.scheduler.search.search_budget import SearchBudget

Amounts = tuple[int, ...]
"""A cost, as amounts that are compared one after the other, and added one by one."""


def find_best_fit(
    options: Sequence[Sequence[Option]],
    costs: Sequence[Sequence[Amounts]],
    capacities: Sequence[FreeCapacity],
    budget: SearchBudget,
) -> tuple[Option, ...] | None:
    """Return the cheapest choice that fits, the first in published order on a tie.

    Choices are tried from the cheapest on, each found from one that is not dearer. None if there is none, or
    if the budget is used up before.
    """
    orders = [sorted(range(len(row)), key=lambda at: (row[at], at)) for row in costs]
    start = (0,) * len(options)

    def total(ranks: tuple[int, ...]) -> tuple[Amounts, tuple[int, ...]]:
        chosen = tuple(order[rank] for order, rank in zip(orders, ranks, strict=True))
        parts = zip(*(cost[at] for cost, at in zip(costs, chosen, strict=True)), strict=True)
        return tuple(map(sum, parts)), chosen

    heap = [(*total(start), start)]
    seen = {start}
    steps, limit = 0, budget.allowance
    while heap and steps < limit:
        _, chosen, ranks = heapq.heappop(heap)
        # Each choice that follows is added up over all engines.
        steps += len(options) ** 2
        choice = [[row[at]] for row, at in zip(options, chosen, strict=True)]
        steps += sum(estimate_steps(capacities[pool]) for [option] in choice for pool, _ in option.loads)
        fitting = find_first_fit(choice, capacities)
        if fitting is not None:
            budget.spend(steps)
            return fitting
        for at, rank in enumerate(ranks):
            following = (*ranks[:at], rank + 1, *ranks[at + 1 :])
            if rank + 1 < len(orders[at]) and following not in seen:
                seen.add(following)
                heapq.heappush(heap, (*total(following), following))
    budget.spend(steps)
    return None


def find_first_fit(
    options: Sequence[Sequence[Option]], capacities: Sequence[FreeCapacity]
) -> tuple[Option, ...] | None:
    """Return the first option of each engine that fits after the previous ones, or None if one has none."""
    chosen = []
    left = [*capacities]
    for wanted in options:
        for option in wanted:
            smaller = _take(left, option)
            if smaller is not None:
                break
        else:
            return None
        chosen.append(option)
        for pool, capacity in smaller.items():
            left[pool] = capacity
    return tuple(chosen)


def take_options(capacities: Sequence[FreeCapacity], options: Sequence[Option]) -> list[FreeCapacity] | None:
    """Return the capacities that options leave, or None if they do not fit together."""
    left = [*capacities]
    for option in options:
        smaller = _take(left, option)
        if smaller is None:
            return None
        for pool, capacity in smaller.items():
            left[pool] = capacity
    return left


def _take(capacities: Sequence[FreeCapacity], option: Option) -> dict[int, FreeCapacity] | None:
    """Return the capacities after an option, or None if it does not fit."""
    smaller = {}
    for pool, load in option.loads:
        capacity = capacities[pool].take(load)
        if capacity is None:
            return None
        smaller[pool] = capacity
    return smaller
