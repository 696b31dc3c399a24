"""Cost of an evaluation, in Kubernetes' units.

A cost depends on the function, its arguments and its result, never on time.

Sources: cel-go v0.26 `interpreter/runtimecost.go`, `ext/{lists,sets}.go`; k8s.io/apiserver v0.35
`pkg/cel/library/cost.go`. The limit is that of k8s.io/api v0.35 `resource/v1`, CELSelectorExpressionMaxCost.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from modelplane.cel.value_types import values

LIMIT: Final = 1_000_000

LIST: Final = 10
MAP: Final = 30
TEXT: Final = 0.1  # per character
PATTERN: Final = 0.25  # per character of a regular expression

Costing = Callable[[tuple[Any, ...], Any], int]


def traversal(size: float, factor: float = TEXT) -> int:
    """Return the cost of traversing this many characters."""
    return math.ceil(size * factor)


def pattern(text_size: int, pattern_size: int) -> int:
    """Return the cost of matching a regular expression."""
    return traversal(1 + text_size) * traversal(pattern_size, PATTERN)


def _by_first_size(factor: float = TEXT) -> Costing:
    return lambda arguments, _: traversal(values.size(arguments[0]), factor)


def _comparison(value: Any) -> int:
    """Return the cost of comparing every part of a value."""
    if isinstance(value, (str, bytes)):
        return int(len(value if isinstance(value, bytes) else value.encode()) * TEXT)
    if isinstance(value, list):
        return sum(map(_comparison, value))
    return 1


def _smaller(arguments: tuple[Any, ...], _: Any) -> int:
    return traversal(min(values.size(arguments[0]), values.size(arguments[1])))


def _joined(_: tuple[Any, ...], result: Any) -> int:
    return traversal(values.size(result), 2 * TEXT)


def _new_list(_: tuple[Any, ...], result: Any) -> int:
    return 1 + LIST + values.size(result)


def _flattened(arguments: tuple[Any, ...], _: Any) -> int:
    return 1 + LIST + values.size(arguments[0]) * (arguments[1] if len(arguments) > 1 else 1)


def _compared(arguments: tuple[Any, ...], _: Any) -> int:
    by = arguments[-1]
    factor = 2 + TEXT if by and isinstance(by[0], (str, bytes)) else 2
    return int(len(by) ** 2 * factor) + 1 + LIST


def _by_both_sizes(arguments: tuple[Any, ...], _: Any) -> int:
    return traversal(values.size(arguments[0]) + values.size(arguments[1]))


def _sets(factor: int) -> Costing:
    return lambda arguments, _: 1 + values.size(arguments[0]) * values.size(arguments[1]) * factor


def _contains_text(arguments: tuple[Any, ...], _: Any) -> int:
    return traversal(values.size(arguments[0])) * traversal(values.size(arguments[1]))


def _matched(arguments: tuple[Any, ...], _: Any) -> int:
    return pattern(values.size(arguments[0]), values.size(arguments[1]))


_BY_FUNCTION: Final[dict[str, Costing]] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"),
        lambda arguments, _: _comparison(arguments[0]),
    ),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _by_first_size()),
    **dict.fromkeys(("replace", "split"), _by_first_size(2 * TEXT)),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _by_first_size()),
    **dict.fromkeys(("find", "findAll"), _matched),
    "join": _joined,
    "_==_": _smaller,
    "_!=_": _smaller,
}

# Charged only where the checker found the one overload that is meant.
_BY_RESOLVED: Final[dict[str, Costing]] = {
    **dict.fromkeys(("slice", "lists.range", "reverse"), _new_list),
    **dict.fromkeys(("sort", "@sortByAssociatedKeys", "distinct"), _compared),
    "flatten": _flattened,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}

_BY_OVERLOAD: Final[dict[str, Costing]] = {
    **dict.fromkeys(("string_to_bytes", "bytes_to_string", "strings_quote"), _by_first_size()),
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string"), lambda arguments, _: traversal(values.size(arguments[0]))
    ),
    **dict.fromkeys(
        (
            f"{operator}_{kind}"
            for operator in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _smaller,
    ),
    **dict.fromkeys(("add_string", "add_bytes"), _by_both_sizes),
    **dict.fromkeys(("matches", "matches_string"), _matched),
    "in_list": lambda arguments, _: values.size(arguments[1]),
    "contains_string": _contains_text,
}


def of(function: str, overload: str) -> Costing | None:
    """Return how a call is charged, or None for one unit."""
    by_overload = _BY_OVERLOAD.get(overload) or (_BY_RESOLVED.get(function) if overload else None)
    return by_overload or _BY_FUNCTION.get(function)
