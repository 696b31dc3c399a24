"""CEL's numbers: 64-bit integers with and without a sign, and doubles.

An overflow is an error, never another value; a comparison across types is by value.

Source for order and equality: cel-go v0.26 `common/types/compare.go`. An int and a double are compared as
doubles if the double is within the int's range, so MAX_INT equals 2^63. Outside it, the double is larger or
smaller.
"""

import math
from typing import Final

from modelplane.cel.errors import EvaluationError
from modelplane.cel.value_types.type_names import Value

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1


class Unsigned(int):
    """A `uint`, kept apart from an int."""

    __slots__ = ()


NUMBERS: Final = frozenset({int, float, Unsigned})


def integer(value: int) -> int:
    """Return the value as an int. Raises EvaluationError if it does not fit."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise EvaluationError("an integer overflows 64 bits")


def unsigned(value: int) -> Unsigned:
    """Return the value as a uint. Raises EvaluationError if it does not fit."""
    if 0 <= value <= MAX_UINT:
        return Unsigned(value)
    raise EvaluationError("an unsigned integer overflows 64 bits or is negative")


def order(left: Value, right: Value) -> int:
    """Return -1, 0 or 1. Raises EvaluationError for a value that is not a number (NaN)."""
    left_float, right_float = type(left) is float, type(right) is float
    if (left_float and math.isnan(left)) or (right_float and math.isnan(right)):
        raise EvaluationError("NaN cannot be ordered")
    if left_float is not right_float:
        double, whole = (left, right) if left_float else (right, left)
        lowest, highest = (0, MAX_UINT) if type(whole) is Unsigned else (MIN_INT, MAX_INT)
        if float(lowest) <= double <= float(highest):
            left, right = float(left), float(right)
    return int(left > right) - int(left < right)


def equal(left: Value, right: Value) -> bool:
    """Compare two numbers by value; NaN equals nothing."""
    if type(left) is type(right):
        return bool(left == right)
    if left != left or right != right:  # noqa: PLR0124  (the test for NaN)
        return False
    return order(left, right) == 0


def add(left: Value, right: Value) -> Value:
    """Add two numbers of one type."""
    return _bounded(type(left), left + right)


def subtract(left: Value, right: Value) -> Value:
    """Subtract two numbers of one type."""
    return _bounded(type(left), left - right)


def multiply(left: Value, right: Value) -> Value:
    """Multiply two numbers of one type."""
    return _bounded(type(left), left * right)


def divide(left: Value, right: Value) -> Value:
    """Divide two numbers of one type, whole ones towards zero."""
    if type(left) is float:
        if right:
            return left / right
        sign = math.copysign(1, left) * math.copysign(1, right)
        return math.nan if not left or math.isnan(left) else math.copysign(math.inf, sign)
    if not right:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _bounded(type(left), quotient if (left < 0) is (right < 0) else -quotient)


def remainder(left: Value, right: Value) -> Value:
    """Return the remainder of a division, with the sign of the left number."""
    if not right:
        raise EvaluationError("modulus by zero")
    if right == -1 and left == MIN_INT:
        raise EvaluationError("an integer overflows 64 bits")
    rest = abs(left) % abs(right)
    return _bounded(type(left), -rest if left < 0 else rest)


def negate(value: Value) -> Value:
    """Negate an int or a double."""
    return -value if type(value) is float else integer(-value)


def _bounded(kind: type, value: Value) -> Value:
    if kind is float:
        return value
    return unsigned(int(value)) if kind is Unsigned else integer(value)
