"""How the readiness of a child is read from what is observed of it."""

from collections.abc import Mapping
from typing import Any

from modelplane.compose.composition import Object, Readiness


def exists(_child: Object) -> bool:
    """Ready as soon as it is there."""
    return True


def condition_of(child: Object, type_: str) -> Mapping[str, Any]:
    """Return a condition of an object in wire form, empty where it has none of that type."""
    for condition in child.get("status", {}).get("conditions", ()):
        if condition["type"] == type_:
            return dict(condition)
    return {}


def holds(child: Object, type_: str) -> bool:
    """Whether a condition of an object is True and speaks of its present generation."""
    condition = condition_of(child, type_)
    if condition.get("status") != "True":
        return False
    seen = condition.get("observedGeneration")
    return seen is None or seen >= child["metadata"].get("generation", 0)


def when_condition(type_: str) -> Readiness:
    """Ready while a condition of the child is True."""
    return lambda child: holds(child, type_)
