"""Keys in flows that take turns, so that a flow of many keys does not delay the others.

The order is that of fair queueing, as in API Priority and Fairness: the oldest key of each flow in turn. A
flow that empties and comes back is behind the others.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Turns(Generic[K]):
    """Keys, each held once."""

    def __init__(self, flow: Callable[[K], str]) -> None:
        self._flow = flow
        self._flows: dict[str, dict[K, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._flows)

    def __contains__(self, key: K) -> bool:
        return key in self._flows.get(self._flow(key), ())

    def add(self, key: K) -> None:
        """Add a key at the end of its flow, unless it is there."""
        self._flows.setdefault(self._flow(key), {})[key] = None

    def take(self) -> K:
        """Take the oldest key of the flow whose turn it is."""
        flow, keys = next(iter(self._flows.items()))
        key = next(iter(keys))
        del keys[key], self._flows[flow]
        if keys:
            self._flows[flow] = keys  # behind the others
        return key
