"""Kubernetes' quantity library: `quantity("40Gi")` and the methods of quantities.

Source: k8s.io/apiserver v0.35 `pkg/cel/library/quantity.go`.
"""

from dataclasses import replace
from typing import Final

from modelplane.cel import quantity
from modelplane.cel.errors import EvaluationError
from modelplane.cel.functions.overload import Overload, overload, takes
from modelplane.cel.numbers import MIN_INT
from modelplane.cel.quantity import Quantity

_Q: Final = "kubernetes.Quantity"


def _parsed(text: str) -> Quantity:
    try:
        return quantity.parse(text)
    except quantity.QuantityError as error:
        raise EvaluationError(str(error)) from error


def _as_integer(value: Quantity) -> int:
    integer = value.as_integer()
    if integer is None:
        raise EvaluationError("a quantity that is not a whole number cannot become an integer")
    return integer


def _sum(value: Quantity, other: Quantity) -> Quantity:
    if value.fixed:
        raise EvaluationError(
            "a device's quantity of this size cannot be added to: Kubernetes would change it"
        )
    return value + other


def _difference(value: Quantity, other: Quantity) -> Quantity:
    return _sum(value, replace(other, nano=-other.nano))


def _more(value: Quantity, count: int) -> Quantity:
    return _sum(value, quantity.whole(count))


def _less(value: Quantity, count: int) -> Quantity:
    if count == MIN_INT and value.scale is not None:
        # The one int whose negative is not an int is added there instead of subtracted, where the sum fits.
        added = _more(value, count)
        if added.as_integer() is not None:
            return added
    return _more(value, -count)


def _compare(left: Quantity, right: Quantity) -> int:
    return (left.nano > right.nano) - (left.nano < right.nano)


def _is_integer(value: Quantity) -> bool:
    return value.as_integer() is not None


OVERLOADS: Final[tuple[Overload, ...]] = (
    overload("quantity", ("string",), _parsed, _Q, "string_to_quantity"),
    overload("isQuantity", ("string",), takes(_parsed), "bool", "is_quantity_string"),
    overload("sign", (_Q,), lambda value: value.sign, "int", "quantity_sign"),
    overload("isInteger", (_Q,), _is_integer, "bool", "quantity_is_integer", member=True),
    overload("asInteger", (_Q,), _as_integer, "int", "quantity_get_int", member=True),
    overload("asApproximateFloat", (_Q,), Quantity.as_float, "double", "quantity_get_float", member=True),
    overload("add", (_Q, _Q), _sum, _Q, "quantity_add", member=True),
    overload("add", (_Q, "int"), _more, _Q, "quantity_add_int", member=True),
    overload("sub", (_Q, _Q), _difference, _Q, "quantity_sub", member=True),
    overload("sub", (_Q, "int"), _less, _Q, "quantity_sub_int", member=True),
    overload("compareTo", (_Q, _Q), _compare, "int", "quantity_compare_to", member=True),
    overload(
        "isGreaterThan",
        (_Q, _Q),
        lambda a, b: a.nano > b.nano,
        "bool",
        "quantity_is_greater_than",
        member=True,
    ),
    overload(
        "isLessThan", (_Q, _Q), lambda a, b: a.nano < b.nano, "bool", "quantity_is_less_than", member=True
    ),
)
