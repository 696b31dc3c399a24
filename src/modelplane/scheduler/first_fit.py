"""First fit: the first option of each engine that fits beside those before it."""

from collections.abc import Sequence

from modelplane.scheduler.engine_options import Option
from modelplane.scheduler.rooms import Room


def first_fit(options: Sequence[Sequence[Option]], rooms: Sequence[Room]) -> tuple[Option, ...] | None:
    """Return the first option of each engine that fits beside those before, None where one has none."""
    chosen = []
    left = [*rooms]
    for wanted in options:
        for option in wanted:
            smaller = _taken(left, option)
            if smaller is not None:
                break
        else:
            return None
        chosen.append(option)
        for pool, room in smaller.items():
            left[pool] = room
    return tuple(chosen)


def _taken(rooms: Sequence[Room], option: Option) -> dict[int, Room] | None:
    """Return the rooms that an option leaves smaller, None where it does not fit."""
    smaller = {}
    for pool, load in option.loads:
        room = rooms[pool].take(load)
        if room is None:
            return None
        smaller[pool] = room
    return smaller
