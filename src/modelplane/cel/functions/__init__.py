"""Functions of selectors, one module per library of Kubernetes or CEL.

A library is a table of overloads; one row has both the declaration and the implementation.
"""

import functools
from typing import Final

from modelplane.cel.functions import (
    conversions,
    lists,
    operators,
    optionals,
    quantities,
    semvers,
    texts,
)
from modelplane.cel.functions.overload import Implementation, Overload

OPERATORS: Final = operators.OPERATORS

# Functions that the compiler learns from us.
DECLARED: Final[tuple[Overload, ...]] = tuple(
    overload
    for library in (
        quantities.OVERLOADS,
        semvers.OVERLOADS,
        texts.OVERLOADS,
        lists.OVERLOADS,
        conversions.TO_TEXT,
    )
    for overload in library
    if overload.identity
)
# Functions that it merges with those it has under the same name.
MERGED: Final = lists.MERGED

_ALL: Final = (
    *DECLARED,
    *MERGED,
    *texts.OVERLOADS,
    *lists.OVERLOADS,
    *conversions.OVERLOADS,
    *optionals.OVERLOADS,
)


def _by_name() -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for overload in _ALL:
        found.setdefault(overload.function, []).append(overload)
    return found


_BY_NAME: Final = _by_name()
NAMES: Final = tuple(sorted(name for name in _BY_NAME if not name.startswith("@")))


@functools.lru_cache(maxsize=1024)
def resolve(function: str, kinds: tuple[type, ...]) -> Implementation | None:
    """Return the implementation of a function for these types, or None if it has none."""
    return next((overload.call for overload in _BY_NAME.get(function, ()) if overload.accepts(kinds)), None)
