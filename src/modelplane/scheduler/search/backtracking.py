"""Bounded backtracking: a depth-first search that gives each item one of its choices.

A state is a dead end where the items still to come cannot be served from it, or where the search from one
like it has failed. A search that exceeds its steps is tried again with the items in the next order.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from modelplane.scheduler.search.search_budget import SearchBudget

State = TypeVar("State")
Choice = TypeVar("Choice")


class Backtracking(ABC, Generic[State, Choice]):
    """A search over items, which go by number.

    `state_cost` is the steps that each visited state takes; 0 if the choices count their own.
    """

    def __init__(self, budget: SearchBudget, state_cost: int = 0) -> None:
        self._budget = budget
        self._state_cost = state_cost
        self._order: Sequence[int] = ()
        self._dead: set[tuple[int, Hashable]] = set()
        self._limit = self._steps = 0

    @property
    def exhausted(self) -> bool:
        """True if the last search ended because it had no steps left."""
        return self._steps > self._limit

    def search(self, start: State, orders: Iterable[Sequence[int]]) -> tuple[Choice, ...] | None:
        """Return the choice of each item, in order of their numbers, or None if there is no solution."""
        for order in orders:
            self._order = order
            self._dead.clear()
            self._steps, self._limit = 0, self._budget.allowance
            chosen = self._search_from(0, start)
            self._budget.spend(self._steps)
            if chosen is not None:
                by_item = dict(zip(order, chosen, strict=True))
                return tuple(by_item[item] for item in range(len(order)))
            if not self.exhausted:
                break
        return None

    def _search_from(self, position: int, state: State) -> tuple[Choice, ...] | None:
        if position == len(self._order):
            return () if self._is_solution(state) else None
        self._steps += self._state_cost
        equivalent = (position, self._get_equivalence_key(state))
        if equivalent in self._dead or not self._can_still_succeed(self._order[position:], state):
            return None
        for choice, left in self._choices(self._order[position], state):
            chosen = None if left is None else self._search_from(position + 1, left)
            if chosen is not None:
                return (choice, *chosen)
            if self.exhausted:
                return None
        self._dead.add(equivalent)
        return None

    @abstractmethod
    def _choices(self, item: int, state: State) -> Iterator[tuple[Choice, State | None]]:
        """Yield the choices of an item, each with the next state, or None if the choice does not fit."""

    @abstractmethod
    def _get_equivalence_key(self, state: State) -> Hashable:
        """Return a value that is equal for states from which the same items can be served."""

    @abstractmethod
    def _can_still_succeed(self, to_come: Sequence[int], state: State) -> bool:
        """Tell whether the items to come might all be served from a state."""

    def _is_solution(self, _: State) -> bool:
        """Tell whether a state in which every item has its choice is a solution."""
        return True


def number_items(items: Iterable[Hashable]) -> list[int]:
    """Return a number for each item, the same for equal ones, so that searches compare numbers."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(item, len(numbers)) for item in items]
