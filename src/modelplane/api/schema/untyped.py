"""Values of objects that others wrote and no schema was checked for: one of another type reads as empty."""

from collections.abc import Mapping, Sequence
from typing import Any


def get_value(item: object, *path: str) -> Any:
    """Return the value at a path of nested maps; None if there is none."""
    for key in path:
        if not isinstance(item, Mapping):
            return None
        item = item.get(key)
    return item


def get_map(value: object) -> Mapping[str, Any]:
    """Return a map as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def get_list(value: object) -> Sequence[Any]:
    """Return a list as it is, and an empty one for anything else."""
    return value if isinstance(value, list) else ()
