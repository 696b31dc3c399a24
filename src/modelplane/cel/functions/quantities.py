"""Kubernetes' quantity library: `quantity("40Gi")` and the methods of quantities.

Source: k8s.io/apiserver v0.35 `pkg/cel/library/quantity.go`.
"""

from dataclasses import replace
from typing import Final

from modelplane.cel.errors import EvaluationError
from modelplane.cel.functions.overload import Overload, overload, parses
from modelplane.cel.value_types import quantity
from modelplane.cel.value_types.numbers import MIN_INT
from modelplane.cel.value_types.quantity import Quantity
from modelplane.cel.value_types.type_names import QUANTITY


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
    return _sum(value, quantity.from_integer(count))


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
    overload("quantity", ("string",), _parsed, QUANTITY, "string_to_quantity"),
    overload("isQuantity", ("string",), parses(_parsed), "bool", "is_quantity_string"),
    overload("sign", (QUANTITY,), lambda value: value.sign, "int", "quantity_sign"),
    overload("isInteger", (QUANTITY,), _is_integer, "bool", "quantity_is_integer", member=True),
    overload("asInteger", (QUANTITY,), _as_integer, "int", "quantity_get_int", member=True),
    overload(
        "asApproximateFloat", (QUANTITY,), Quantity.as_float, "double", "quantity_get_float", member=True
    ),
    overload("add", (QUANTITY, QUANTITY), _sum, QUANTITY, "quantity_add", member=True),
    overload("add", (QUANTITY, "int"), _more, QUANTITY, "quantity_add_int", member=True),
    overload("sub", (QUANTITY, QUANTITY), _difference, QUANTITY, "quantity_sub", member=True),
    overload("sub", (QUANTITY, "int"), _less, QUANTITY, "quantity_sub_int", member=True),
    overload("compareTo", (QUANTITY, QUANTITY), _compare, "int", "quantity_compare_to", member=True),
    overload(
        "isGreaterThan",
        (QUANTITY, QUANTITY),
        lambda a, b: a.nano > b.nano,
        "bool",
        "quantity_is_greater_than",
        member=True,
    ),
    overload(
        "isLessThan",
        (QUANTITY, QUANTITY),
        lambda a, b: a.nano < b.nano,
        "bool",
        "quantity_is_less_than",
        member=True,
    ),
)
