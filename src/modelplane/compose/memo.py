"""Remembering what was worked out from one version of an object.

A hundred deployments are placed over the same thousand clusters, which change
far less often than they are looked at. An object's uid and resource version
name its content, so what follows from the content need be found only once.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")

_MOST = 100_000
"""Objects remembered by one function, so that those long gone do not stay for ever."""


def per_version(
    function: Callable[[Mapping[str, Any]], T], most: int = _MOST
) -> Callable[[Mapping[str, Any]], T]:
    """Return a function that works out each version of an object once.

    An object without uid or resource version, as files hold them, is worked out every time. What
    the function returns must not be changed by anyone.
    """
    known: dict[str, tuple[str, T]] = {}
    turn = Lock()

    @wraps(function)
    def remembered(item: Mapping[str, Any]) -> T:
        metadata = item["metadata"]
        uid, version = metadata.get("uid"), metadata.get("resourceVersion")
        if not uid or not version:
            return function(item)
        found = known.get(uid)
        if found is None or found[0] != version:
            found = (version, function(item))
            with turn:
                if uid not in known and len(known) >= most:
                    del known[next(iter(known))]
                known[uid] = found
        return found[1]

    return remembered
