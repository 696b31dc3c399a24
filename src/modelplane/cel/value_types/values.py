"""CEL values: the names of their types, equality, and the elements of lists, maps and domains.

Equality is CEL's, never Python's (where True is 1).

A map is a dict whose keys are CEL values, except that a boolean key is wrapped (`map_key`), because Python
would take it for a number. Whole numbers of all types are equal as keys, in Python as in CEL.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from modelplane.cel.bindings import Domain, Domains
from modelplane.cel.errors import EvaluationError
from modelplane.cel.value_types import numbers, optional
from modelplane.cel.value_types.moments import Duration, Timestamp
from modelplane.cel.value_types.optional import ABSENT, Optional
from modelplane.cel.value_types.quantity import Quantity
from modelplane.cel.value_types.semver import Semver
from modelplane.cel.value_types.type_names import QUANTITY, SEMVER, Value


class TypeName(msgspec.Struct, frozen=True):
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
    numbers.Unsigned: "uint",
    TypeName: "type",
    Optional: "optional_type",
    Quantity: QUANTITY,
    Semver: SEMVER,
    Timestamp: "timestamp",
    Duration: "duration",
}


def kind(value: Value) -> str:
    """Return the name of a value's type."""
    return _KINDS.get(type(value), type(value).__name__)


def no_overload(name: str, arguments: tuple[Value, ...]) -> str:
    """Say that a function or operator does not take such arguments."""
    symbol = name.strip("_@").replace("_", " ") or name
    if not arguments:
        return f"{symbol} needs arguments"
    return f"{symbol} cannot be applied to {' and '.join(map(kind, arguments))}"


def as_optional(value: Value) -> Optional:
    """Return an optional value. Raises EvaluationError for any other."""
    if not isinstance(value, Optional):
        raise EvaluationError(f"an optional is needed, not {kind(value)}")
    return value


def as_boolean(value: Value) -> bool:
    """Return a truth value. Raises EvaluationError for any other."""
    if not isinstance(value, bool):
        raise EvaluationError(f"a boolean is needed, not {kind(value)}")
    return value


def map_key(key: Value) -> Value:
    """Return a key in the form in which a dict holds it. Raises EvaluationError for one that cannot be."""
    if type(key) is bool:
        return ("bool", key)
    if type(key) not in _KEYS:
        raise EvaluationError(f"{kind(key)} cannot be a map key")
    return key


# Kubernetes takes more, and ends with a fault of its own where Go cannot hash one (bytes).
_KEYS: Final = frozenset({str, type(None)}) | numbers.NUMBERS
INDEXES: Final = frozenset({str, bool}) | numbers.NUMBERS


def keys(value: dict[Value, Value]) -> list[Value]:
    """Return the keys of a map as CEL sees them."""
    return [key[1] if type(key) is tuple else key for key in value]


def elements(value: Value) -> list[Value]:
    """Return the items or keys that a loop visits. Raises EvaluationError."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return keys(value)
    if isinstance(value, Domains):
        return list(value.domains)
    if isinstance(value, Domain):
        return list(value.values)
    raise EvaluationError(f"{kind(value)} cannot be iterated over")


def pairs(value: Value) -> Iterable[tuple[Value, Value]]:
    """Return the index or key, and value, that a loop with two variables visits. Raises EvaluationError."""
    if isinstance(value, list):
        return enumerate(value)
    return [(key, index(value, key)) for key in elements(value)]


def find(value: Value, key: Value) -> Optional:
    """Return the element under a key, absent when there is none. Raises EvaluationError for a wrong key."""
    if type(key) not in INDEXES:
        raise EvaluationError(f"nothing is found by {kind(key)}")
    match value:
        case Domains():
            # Kubernetes' map answers every lookup, so a domain is never absent.
            return optional.of(value.read(_name(key)))
        case Domain():
            return optional.of(value.read(key)) if isinstance(key, str) and key in value.values else ABSENT
        case dict():
            held = map_key(key)
            return optional.of(value[held]) if held in value else ABSENT
        case list():
            position = _position(key)
            return optional.of(value[position]) if 0 <= position < len(value) else ABSENT
        case Optional():
            return find(value.value, key) if value.present else ABSENT
    return ABSENT


def index(value: Value, key: Value) -> Value:
    """Return the element under a key. Raises EvaluationError if there is none."""
    if type(value) is Domains or type(value) is Domain:
        return value.read(key if type(key) is str else _name(key))
    found = find(value, key)
    if isinstance(value, Optional):
        return found
    if not found.present:
        shown = f'"{key}"' if isinstance(key, str) else key
        raise EvaluationError(f"{kind(value)} has no element {shown}")
    return found.value


def _position(key: Value) -> int:
    if type(key) in numbers.NUMBERS and key == key // 1:
        return int(key)
    raise EvaluationError(f"a list is indexed by a whole number, not by {kind(key)}")


def _name(key: Value) -> str:
    if not isinstance(key, str):
        raise EvaluationError(f"a device's values are found by string, not by {kind(key)}")
    return key


def contains(value: Value, container: Value) -> bool:
    """Tell whether a list holds an equal value, or a map the key."""
    if isinstance(container, Domains):
        return isinstance(value, str) and value in container.domains
    if isinstance(container, list):
        return any(equal(value, item) and not is_computed(item) for item in container)
    if not isinstance(container, (dict, Domain)):
        raise EvaluationError(no_overload("@in", (value, container)))
    return find(container, value).present


def size(value: Value) -> int:
    """Return the size of a value in Kubernetes' cost accounting; 1 for a scalar."""
    match value:
        case str() | bytes() | list() | dict():
            return len(value)
        case Domain():
            return len(value.values)
        case Domains():
            return len(value.domains)
        case Optional():
            return size(value.value) if value.present else 1
    return 1


_OWN: Final = (Quantity, Semver)
_MAPS: Final = frozenset({dict, Domain, Domains})


def equal(left: Value, right: Value) -> bool:
    """Compare as CEL does: numbers by value, whatever their types; values of other types are unequal."""
    left_type, right_type = type(left), type(right)
    if left_type in numbers.NUMBERS and right_type in numbers.NUMBERS:
        return numbers.equal(left, right)
    if left_type is list and right_type is list:
        return len(left) == len(right) and all(map(equal, left, right))
    if left_type is Optional and right_type is Optional:
        return left.present is right.present and equal(left.value, right.value)
    if left_type is right_type and left_type not in _MAPS:
        return bool(left == right)
    left_map, right_map = _as_map(left), _as_map(right)
    if left_map is None or right_map is None:
        return False
    return len(left_map) == len(right_map) and all(
        key in right_map and equal(value, right_map[key]) for key, value in left_map.items()
    )


def is_computed(value: Value) -> bool:
    """Tell whether a value is a sum of quantities, to which Kubernetes finds nothing equal."""
    return isinstance(value, Quantity) and value.computed


def same(left: Value, right: Value) -> bool:
    """Apply `==`. Raises EvaluationError if a type of Kubernetes meets another; `!=` and `in` allow it."""
    if isinstance(left, _OWN) and right is not None and type(left) is not type(right):
        raise EvaluationError(no_overload("_==_", (left, right)))
    if isinstance(left, Quantity) and is_computed(right):
        raise EvaluationError("a sum of quantities is compared with == only on its left side")
    return equal(left, right)


def _as_map(value: Value) -> dict[Value, Value] | None:
    match value:
        case dict():
            return value
        case Domain():
            return value.values
        case Domains():
            return dict(value.domains)
    return None
