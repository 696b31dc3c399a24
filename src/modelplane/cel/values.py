"""CEL values: their types' names, equality, and what is inside a list, a map or a device's domain.

One rule: Python's ideas of equality (True is 1, 1 is 1.0) never decide; CEL's do.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from modelplane.cel import checked, optional, standard
from modelplane.cel.bindings import Domain, Domains
from modelplane.cel.errors import EvaluationError
from modelplane.cel.optional import ABSENT, Optional
from modelplane.cel.quantity import Quantity
from modelplane.cel.semver import Semver

_Value: TypeAlias = Any  # a CEL value: plain, Quantity, Semver, Domain, Domains, Optional or TypeName


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value, such as `int`."""

    name: str


_KINDS: Final = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Domain: "map",
    Domains: "map",
    type(None): "null_type",
    checked.Unsigned: "uint",
    TypeName: "type",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    dt.datetime: "timestamp",
    dt.timedelta: "duration",
}


def kind(value: _Value) -> str:
    """Return the name of a value's type."""
    return _KINDS.get(type(value), type(value).__name__)


def no_overload(name: str, arguments: tuple[_Value, ...]) -> str:
    """Say that a function or operator does not take such arguments."""
    symbol = name.strip("_@") or name
    return f"{symbol} cannot be applied to {' and '.join(map(kind, arguments))}"


def as_optional(value: _Value) -> Optional:
    """Return an optional value. Raises EvaluationError for any other."""
    if not isinstance(value, Optional):
        raise EvaluationError(f"an optional is needed, not {kind(value)}")
    return value


def as_boolean(value: _Value) -> bool:
    """Return a truth value. Raises EvaluationError for any other."""
    if not isinstance(value, bool):
        raise EvaluationError(f"a boolean is needed, not {kind(value)}")
    return value


def elements(value: _Value) -> list[_Value]:
    """Return what a loop over the value visits: items or keys. Raises EvaluationError."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, Domains):
        return list(value.domains)
    if isinstance(value, Domain):
        return list(value.values)
    raise EvaluationError(f"{kind(value)} cannot be iterated over")


def find(value: _Value, key: _Value) -> Optional:
    """Return the element under a key, absent when there is none."""
    match value:
        case Domains():
            # Kubernetes' map answers every lookup, so a domain is never absent.
            return optional.of(value.read(_name(key)))
        case Domain():
            return optional.of(value.read(key)) if isinstance(key, str) and key in value.values else ABSENT
        case dict():
            return next((optional.of(item) for name, item in value.items() if equal(name, key)), ABSENT)
        case list() if type(key) is int:
            return optional.of(value[key]) if 0 <= key < len(value) else ABSENT
        case Optional():
            return find(value.value, key) if value.present else ABSENT
    return ABSENT


def index(value: _Value, key: _Value) -> _Value:
    """Return the element under a key. Raises EvaluationError when there is none."""
    if isinstance(value, Domain):
        return value.read(_name(key))
    found = find(value, key)
    if isinstance(value, Optional):
        return found
    if not found.present:
        raise EvaluationError(f"{kind(value)} has no element {key!r}")
    return found.value


def _name(key: _Value) -> str:
    if not isinstance(key, str):
        raise EvaluationError(f"a device's values are found by string, not by {kind(key)}")
    return key


def contains(value: _Value, container: _Value) -> bool:
    """Tell whether a list holds an equal value, or a map the key."""
    if isinstance(container, Domains):
        return isinstance(value, str) and value in container.domains
    if isinstance(container, list):
        return any(equal(value, item) for item in container)
    if not isinstance(container, (dict, Domain)):
        raise EvaluationError(no_overload("@in", (value, container)))
    return find(container, value).present


_FOREIGN: Final = (Quantity, Semver, TypeName, Optional, dt.datetime, dt.timedelta)


def equal(left: _Value, right: _Value) -> bool:
    """Compare as CEL does: numbers by value, whatever their types; values of other types are unequal."""
    if type(left) is type(right) and isinstance(left, (str, bool, int, *_FOREIGN)):
        return bool(left == right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    left_map, right_map = _as_map(left), _as_map(right)
    if left_map is not None and right_map is not None:
        return len(left_map) == len(right_map) and all(
            (found := find(right_map, key)).present and equal(value, found.value)
            for key, value in left_map.items()
        )
    if not standard.is_plain(left) or not standard.is_plain(right):
        return False
    return bool(standard.apply("_==_", (left, right), member=False))


def same(left: _Value, right: _Value) -> bool:
    """Apply `==`. Raises EvaluationError where a Kubernetes type meets another; `!=` and `in` allow it."""
    if isinstance(left, (Quantity, Semver)) and right is not None and type(left) is not type(right):
        raise EvaluationError(no_overload("_==_", (left, right)))
    return equal(left, right)


def _as_map(value: _Value) -> dict[_Value, _Value] | None:
    match value:
        case dict():
            return value
        case Domain():
            return dict(value.values)
        case Domains():
            return dict(value.domains)
    return None
