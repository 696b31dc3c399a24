"""Functions of optional values, and maps made by `transformMap`.

Source: cel-go v0.26 `cel/library.go` (optional types) and `ext/comprehensions.go`. `or` and `orValue`, which
evaluate their argument only if they need it, are in `evaluate`.
"""

from typing import Any, Final

from modelplane.cel.errors import EvaluationError
from modelplane.cel.functions.overload import ANY, Overload, overload
from modelplane.cel.value_types import optional, values
from modelplane.cel.value_types.moments import Duration
from modelplane.cel.value_types.optional import Optional
from modelplane.cel.value_types.quantity import Quantity
from modelplane.cel.value_types.semver import Semver

_O: Final = f"optional<{ANY}>"


def _of_non_zero(value: Any) -> Optional:
    if isinstance(value, Duration):
        return optional.of(value) if value.nanoseconds else optional.ABSENT
    if isinstance(value, (Quantity, Semver)):
        return optional.of(value)
    if isinstance(value, (bool, int, float, str, bytes, list, dict, type(None))):
        return optional.of(value) if value else optional.ABSENT
    return optional.of(value) if values.size(value) else optional.ABSENT


def inserted(into: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    """Add an entry to a map that no one else holds. Raises EvaluationError if the key is there."""
    held = values.map_key(key)
    if held in into:
        raise EvaluationError(f"a map has the key {key} twice")
    into[held] = value
    return into


OVERLOADS: Final[tuple[Overload, ...]] = (
    overload("optional.of", (ANY,), optional.of),
    overload("optional.none", (), lambda: optional.ABSENT),
    overload("optional.ofNonZeroValue", (ANY,), _of_non_zero),
    overload("hasValue", (_O,), lambda held: held.present),
    overload("value", (_O,), Optional.get),
)
