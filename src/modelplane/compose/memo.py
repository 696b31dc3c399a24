"""Remembering what was worked out from one version of an object.

A hundred deployments are placed over the same thousand clusters, which change
far less often than they are looked at. An object's uid and resource version
name its content, so what follows from the content need be found only once.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from threading import Lock
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_MOST = 100_000
"""Objects remembered by one function, so that those long gone do not stay for ever."""


class PerVersion(Generic[T]):
    """What was worked out from objects, by uid and resource version; several threads may share it."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: dict[str, tuple[str, T]] = {}
        self._turn = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def recall(self, uid: str, version: str) -> T | None:
        """Return what is known of a version of an object, None where nothing is."""
        known = self._known.get(uid)
        return known[1] if known is not None and known[0] == version else None

    def keep(self, uid: str, version: str, found: T) -> None:
        """Remember what was worked out; not of an object without uid or version, as files hold them."""
        if not uid or not version:
            return
        with self._turn:
            if uid not in self._known and len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            self._known[uid] = (version, found)


def per_version(
    function: Callable[[Mapping[str, Any]], T], most: int = _MOST
) -> Callable[[Mapping[str, Any]], T]:
    """Return a function that works out each version of an object once.

    What the function returns is not None, and must not be changed by anyone.
    """
    known: PerVersion[T] = PerVersion(most)

    @wraps(function)
    def remembered(item: Mapping[str, Any]) -> T:
        metadata = item["metadata"]
        uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        found = known.recall(uid, version)
        if found is None:
            found = function(item)
            known.keep(uid, version, found)
        return found

    return remembered
