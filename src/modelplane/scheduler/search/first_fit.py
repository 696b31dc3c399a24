"""First fit: the first option of each engine that fits beside those before it."""

from collections.abc import Sequence

from modelplane.scheduler.capacity.capacity import FreeCapacity
from modelplane.scheduler.placement.engine_options import Option


def find_first_fit(
    options: Sequence[Sequence[Option]], capacities: Sequence[FreeCapacity]
) -> tuple[Option, ...] | None:
    """Return the first option of each engine that fits after the previous ones, or None if one has none."""
    chosen = []
    left = [*capacities]
    for wanted in options:
        for option in wanted:
            smaller = _taken(left, option)
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
        smaller = _taken(left, option)
        if smaller is None:
            return None
        for pool, capacity in smaller.items():
            left[pool] = capacity
    return left


def _taken(capacities: Sequence[FreeCapacity], option: Option) -> dict[int, FreeCapacity] | None:
    """Return the capacities after an option, or None if it does not fit."""
    smaller = {}
    for pool, load in option.loads:
        capacity = capacities[pool].take(load)
        if capacity is None:
            return None
        smaller[pool] = capacity
    return smaller
