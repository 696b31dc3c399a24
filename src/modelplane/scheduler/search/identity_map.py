"""A map whose keys are compared by identity.

Devices take long to hash and many pools share them, so cached results are found by identity.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class IdentityMap(Generic[Key, Value]):
    """A value for each object, equal objects apart."""

    def __init__(self) -> None:
        self._values: dict[int, Value] = {}
        # The objects are kept, so that their ids are not used again while they are keys.
        self._keys: list[Key] = []

    def get(self, key: Key) -> Value | None:
        """Return the value of an object, or None if it has none."""
        return self._values.get(id(key))

    def setdefault(self, key: Key, default: Value) -> Value:
        """Return the value of an object, after setting the default if it has none."""
        if id(key) not in self._values:
            self._keys.append(key)
        return self._values.setdefault(id(key), default)


def number_by_value(value_of: Callable[[Key], Hashable]) -> Callable[[Key], int]:
    """Return a function that numbers objects: the same number for objects of equal value."""
    numbered: dict[int, int] = {}
    keys: list[Key] = []  # kept, as above
    numbers: dict[Hashable, int] = {}

    def number(key: Key) -> int:
        assigned = numbered.get(id(key))
        if assigned is None:
            assigned = numbered[id(key)] = numbers.setdefault(value_of(key), len(numbers))
            keys.append(key)
        return assigned

    return number
