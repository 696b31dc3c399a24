"""Search for options of all engines that fit together, if the first fit finds none."""

from collections.abc import Hashable, Iterator, Sequence

from modelplane.scheduler.free_capacity import FreeCapacity, NodeCapacity, estimate_steps
from modelplane.scheduler.placement.engine_options import Option
from modelplane.scheduler.search.backtracking import Backtracking, number_items
from modelplane.scheduler.search.search_budget import SearchBudget


class EngineSearch(Backtracking[tuple[int, ...], Option]):
    """Gives each engine an option. A state is the capacity that is left in each pool.

    It is a dead end where an engine to come has no option left, or where those to come need more nodes than
    are free. `kinds` are equal for pools that have the same options. Capacities and loads go by
    number, and what a load leaves of a capacity is found once.
    """

    def __init__(
        self,
        options: Sequence[Sequence[Option]],
        capacities: Sequence[FreeCapacity],
        kinds: Sequence[Hashable],
        budget: SearchBudget,
    ) -> None:
        super().__init__(budget)
        self._options = options
        self._kinds = number_items(kinds)

        every = [load for wanted in options for option in wanted for _, load in option.loads]
        self._loads = tuple(dict.fromkeys(every))
        numbers = iter(number_items(every))
        self._wanted = [
            [[(pool, next(numbers)) for pool, _ in option.loads] for option in wanted] for wanted in options
        ]
        self._nodes = [
            min(
                sum(load.nodes for pool, load in option.loads if isinstance(capacities[pool], NodeCapacity))
                for option in wanted
            )
            for wanted in options
        ]
        self._capacities: list[FreeCapacity] = []
        self._numbers: dict[FreeCapacity, int] = {}
        self._left: dict[tuple[int, int], int | None] = {}
        self._start = tuple(map(self._number, capacities))

    @property
    def outcome(self) -> str:
        """Say why the search found nothing."""
        if self.exhausted:
            return "the search reached its limit before placing all engines"
        return "each engine fits, but not all at once"

    def find_possible(self) -> list[list[Option]]:
        """Return the options of each engine that would fit if it were alone."""
        fitting = [
            [option for option, loads in zip(options, wanted, strict=True) if self._after(self._start, loads)]
            for options, wanted in zip(self._options, self._wanted, strict=True)
        ]
        self._budget.spend(self._steps)
        return fitting

    def run(self) -> tuple[Option, ...] | None:
        """Return the chosen option of each engine: in their order first, else the largest first."""
        engines = range(len(self._options))
        return self.search(self._start, (engines, sorted(engines, key=self._size, reverse=True)))

    def _size(self, engine: int) -> tuple[int, int]:
        """Return the nodes and devices that an engine needs."""
        claimed = sum(
            load.copies * pods * sum(demand.need)
            for _, load in self._options[engine][0].loads
            for demand, pods in load.group.pods
        )
        return (self._nodes[engine], claimed)

    def _choices(self, item: int, state: tuple[int, ...]) -> Iterator[tuple[Option, tuple[int, ...] | None]]:
        for option, loads in zip(self._options[item], self._wanted[item], strict=True):
            yield option, self._after(state, loads)

    def _get_equivalence_key(self, state: tuple[int, ...]) -> Hashable:
        return tuple(sorted(zip(self._kinds, state, strict=True)))

    def _can_still_succeed(self, to_come: Sequence[int], state: tuple[int, ...]) -> bool:
        capacities = (self._capacities[number] for number in state)
        free = sum(max(left.free, 0) for left in capacities if isinstance(left, NodeCapacity))
        if free < sum(self._nodes[engine] for engine in to_come):
            return False
        return all(any(self._after(state, loads) for loads in self._wanted[engine]) for engine in to_come)

    def _after(self, state: tuple[int, ...], loads: Sequence[tuple[int, int]]) -> tuple[int, ...] | None:
        """Return the next state after an option, or None if the option does not fit."""
        self._steps += 1
        left = [*state]
        for pool, load in loads:
            number = self._take(state[pool], load)
            if number is None:
                return None
            left[pool] = number
        return tuple(left)

    def _take(self, capacity: int, load: int) -> int | None:
        key = (capacity, load)
        if key not in self._left:
            smaller = self._capacities[capacity].take(self._loads[load])
            self._left[key] = None if smaller is None else self._number(smaller)
            self._steps += estimate_steps(self._capacities[capacity])
        return self._left[key]

    def _number(self, capacity: FreeCapacity) -> int:
        number = self._numbers.setdefault(capacity, len(self._capacities))
        if number == len(self._capacities):
            self._capacities.append(capacity)
        return number
