"""Memo: results computed from one version of an object, such as the decoded object.

A hundred deployments are placed over the same thousand clusters, which change far less often than they are
read. An object's uid and resource version identify its content, so a result is computed once.

This is where the core keeps state, with the caches of functions of values. None of it is an input: without it
each answer is the same, and later. The lock is here because the function of Crossplane composes in threads.
"""

from collections.abc import Callable, Mapping
from functools import cache, wraps
from threading import Lock
from typing import Any, Generic, TypeVar

from modelplane.api.meta import Model
from modelplane.api.schema.decode import InvalidObject, decode_as

T = TypeVar("T")

_MOST = 100_000
"""Maximum number of objects for one function, so that deleted ones are evicted."""


class PerVersion(Generic[T]):
    """Results by uid and resource version of an object; safe for several threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: dict[str, tuple[str, T]] = {}
        self._turn = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def recall(self, uid: str, version: str) -> T | None:
        """Return the result for a version of an object; None if there is none."""
        # Without the lock: one look-up of a tuple that is never changed, only replaced by another.
        known = self._known.get(uid)
        return known[1] if known is not None and known[0] == version else None

    def keep(self, uid: str, version: str, found: T) -> None:
        """Keep a result, unless the object has no uid or version, as in files."""
        if not uid or not version:
            return
        with self._turn:
            if uid not in self._known and len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            self._known[uid] = (version, found)


def per_version(
    function: Callable[[Mapping[str, Any]], T], most: int = _MOST
) -> Callable[[Mapping[str, Any]], T]:
    """Return a function that computes its result once for each version of an object.

    The function does not return None, and callers must not change the result.
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


M = TypeVar("M", bound=Model)


@cache
def readable(kind: type[M]) -> Callable[[Mapping[str, Any]], tuple[M, ...]]:
    """Return the decoder of a kind: a function that decodes each version of an object once.

    Its result is empty for an object that cannot be read, which the object's own conditions report.
    """

    def decoded(item: Mapping[str, Any]) -> tuple[M, ...]:
        try:
            return (decode_as(kind, item),)
        except InvalidObject:
            return ()

    return per_version(decoded)
