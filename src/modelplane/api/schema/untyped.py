"""Values of objects as they are on the wire; what is missing, or of another type, reads as empty."""

from collections.abc import Mapping, Sequence
from typing import Any


def get_value(item: object, *path: str) -> Any:
    """Return the value at a path of nested maps; None if there is none."""
    for key in path:
        if not isinstance(item, (dict, Mapping)):  # a dict is much faster to tell
            return None
        item = item.get(key)
    return item


def get_map(item: object, *path: str) -> Mapping[str, Any]:
    """Return the map at a path of nested maps; an empty one if there is none."""
    value = get_value(item, *path)
    return value if isinstance(value, (dict, Mapping)) else {}


def get_list(item: object, *path: str) -> Sequence[Any]:
    """Return the list at a path of nested maps; an empty one if there is none."""
    value = get_value(item, *path)
    return value if isinstance(value, (list, tuple)) else ()
