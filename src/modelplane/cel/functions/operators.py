"""CEL's operators over plain values.

The types of the operands select the implementation; a pair of types without a row has no such operator.

The operators are implemented here because a selector consists mostly of operators, and one call of the
library costs as much as the rest of a selector.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Final

from modelplane.cel.errors import EvaluationError
from modelplane.cel.value_types import moments, numbers, values, weight
from modelplane.cel.value_types.moments import Duration, Timestamp
from modelplane.cel.value_types.numbers import NUMBERS, Unsigned
from modelplane.cel.value_types.type_names import Value

_Binary = Callable[[Value, Value], Value]

_ORDERED: Final = frozenset({str, bytes, bool, Duration, Timestamp})


def _joined(left: Value, right: Value) -> Value:
    weight.bounded_text(len(left) + len(right))
    return left + right


_PLUS: Final[dict[tuple[type, type], _Binary]] = {
    (int, int): numbers.add,
    (Unsigned, Unsigned): numbers.add,
    (float, float): numbers.add,
    (str, str): _joined,
    (bytes, bytes): _joined,
    (list, list): list.__add__,
    (Duration, Duration): moments.sum_of,
    (Timestamp, Duration): moments.moved,
    (Duration, Timestamp): lambda by, moment: moments.moved(moment, by),
}
_MINUS: Final[dict[tuple[type, type], _Binary]] = {
    (int, int): numbers.subtract,
    (Unsigned, Unsigned): numbers.subtract,
    (float, float): numbers.subtract,
    (Duration, Duration): moments.difference,
    (Timestamp, Duration): moments.moved_back,
    (Timestamp, Timestamp): moments.between,
}
_WHOLE: Final = frozenset({(int, int), (Unsigned, Unsigned)})
_NUMERIC: Final = _WHOLE | {(float, float)}


_Named = Callable[[str], Callable[..., Value]]
"""Makes an operator, given its name for the errors."""


def _by_types(operators: Mapping[tuple[type, type], _Binary]) -> _Named:
    """Return an operator with an implementation for each pair of types."""

    def named(name: str) -> _Binary:
        def apply(left: Value, right: Value) -> Value:
            apply_to = operators.get((type(left), type(right)))
            if apply_to is None:
                raise EvaluationError(values.no_overload(name, (left, right)))
            return apply_to(left, right)

        return apply

    return named


def order(left: Value, right: Value, name: str = "_<_") -> int:
    """Return -1, 0 or 1. Raises EvaluationError for values that have no order."""
    left_type, right_type = type(left), type(right)
    if left_type in NUMBERS and right_type in NUMBERS:
        if left_type is right_type is int:
            return int(left > right) - int(left < right)
        return numbers.order(left, right)
    if left_type is not right_type or left_type not in _ORDERED:
        raise EvaluationError(values.no_overload(name, (left, right)))
    return int(left > right) - int(left < right)


def _ordered(compare: _Binary) -> _Named:
    """Return a comparison; `compare` takes -1, 0 or 1, and 0."""
    return lambda name: lambda left, right: compare(order(left, right, name), 0)


def _negation(name: str) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        if type(value) is not int and type(value) is not float:
            raise EvaluationError(values.no_overload(name, (value,)))
        return numbers.negate(value)

    return apply


_NAMED: Final[dict[str, _Named]] = {
    "_+_": _by_types(_PLUS),
    "_-_": _by_types(_MINUS),
    "_*_": _by_types(dict.fromkeys(_NUMERIC, numbers.multiply)),
    "_/_": _by_types(dict.fromkeys(_NUMERIC, numbers.divide)),
    "_%_": _by_types(dict.fromkeys(_WHOLE, numbers.remainder)),
    "-_": _negation,
    "_<_": _ordered(operator.lt),
    "_<=_": _ordered(operator.le),
    "_>_": _ordered(operator.gt),
    "_>=_": _ordered(operator.ge),
}
OPERATORS: Final[dict[str, Callable[..., Value]]] = {
    **{name: make(name) for name, make in _NAMED.items()},
    "!_": lambda value: not values.as_boolean(value),
    "_==_": values.same,
    "_!=_": lambda left, right: not values.equal(left, right),
    "@in": values.contains,
}
plus: Final = OPERATORS["_+_"]

_NUMBER_PAIRS: Final = {
    ("int", "double"): "int64_double",
    ("double", "int"): "double_int64",
    ("int", "uint"): "int64_uint64",
    ("uint", "int"): "uint64_int64",
    ("uint", "double"): "uint64_double",
    ("double", "uint"): "double_uint64",
}
_NAMES: Final = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}

# (operator, parameters, overload): comparisons across types of numbers, which Kubernetes switches on.
CROSS_TYPE: Final = tuple(
    (operator, parameters, f"{name}_{suffix}")
    for operator, name in _NAMES.items()
    for parameters, suffix in _NUMBER_PAIRS.items()
)
