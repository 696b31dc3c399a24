"""The functions that Kubernetes adds to CEL, over quantities and versions.

One rule: a function is found by its name and the types of all its arguments, else there is no such overload.
The declarations that selectors are checked against are in `environment`.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from modelplane.cel import quantity, semver
from modelplane.cel.errors import EvaluationError
from modelplane.cel.quantity import Quantity
from modelplane.cel.semver import Semver


def _quantity(text: str) -> Quantity:
    try:
        return quantity.parse(text)
    except quantity.QuantityError as error:
        raise EvaluationError(str(error)) from error


def _semver(text: str, normalize: bool = False) -> Semver:
    try:
        return semver.parse(text, normalize=normalize)
    except semver.SemverError as error:
        raise EvaluationError(str(error)) from error


def _parses(parse: Callable[..., object]) -> Callable[..., bool]:
    def parses(*arguments: object) -> bool:
        try:
            parse(*arguments)
        except EvaluationError:
            return False
        return True

    return parses


def _as_integer(value: Quantity) -> int:
    integer = value.as_integer()
    if integer is None:
        raise EvaluationError("a quantity that is not a whole number cannot become an integer")
    return integer


def _compare(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


Overload: TypeAlias = Callable[..., Any]

_SINGLE: dict[tuple[str, tuple[type, ...]], Overload] = {
    ("quantity", (str,)): _quantity,
    ("isQuantity", (str,)): _parses(_quantity),
    ("sign", (Quantity,)): lambda value: value.sign,
    ("isInteger", (Quantity,)): lambda value: value.as_integer() is not None,
    ("asInteger", (Quantity,)): _as_integer,
    ("asApproximateFloat", (Quantity,)): Quantity.as_float,
    ("add", (Quantity, Quantity)): lambda left, right: left + right,
    ("add", (Quantity, int)): lambda left, right: left + quantity.whole(right),
    ("sub", (Quantity, Quantity)): lambda left, right: left - right,
    ("sub", (Quantity, int)): lambda left, right: left - quantity.whole(right),
    ("semver", (str,)): _semver,
    ("semver", (str, bool)): _semver,
    ("isSemver", (str,)): _parses(_semver),
    ("isSemver", (str, bool)): _parses(_semver),
    ("major", (Semver,)): lambda value: value.major,
    ("minor", (Semver,)): lambda value: value.minor,
    ("patch", (Semver,)): lambda value: value.patch,
}

_ORDER: dict[str, Overload] = {
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: left > right,
    "isLessThan": lambda left, right: left < right,
}

OVERLOADS: Final = _SINGLE | {
    (name, (kind, kind)): function for kind in (Quantity, Semver) for name, function in _ORDER.items()
}

NAMES: Final = frozenset(name for name, _ in OVERLOADS)
