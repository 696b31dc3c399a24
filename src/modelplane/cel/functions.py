"""Functions of quantities and versions, which Kubernetes adds to CEL.

The library can neither tell two types of ours apart when it calls a function, nor hold a value of one. So a
quantity or version is bytes while it evaluates, and the compiler knows better types. Nothing else that a
selector can write or read is bytes.

Sources: k8s.io/apiserver v0.35 `pkg/cel/library/quantity.go` and `semverlib.go`. A part of a version beyond
2^63 - 1 becomes negative there.
"""

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from modelplane.api.values import quantity, semver
from modelplane.api.values.quantity import Quantity, QuantityError
from modelplane.api.values.semver import Semver, SemverError
from modelplane.cel.errors import EvaluationError

QUANTITY: Final = "kubernetes.Quantity"
SEMVER: Final = "kubernetes.Semver"
_MIN_INT: Final = -(2**63)
_LONGEST_VERSION: Final = 256  # a device's has at most 64 characters
_LONGEST_ERROR: Final = 400  # a loop may fail in each turn


def pack(value: Quantity | Semver) -> bytearray:
    """Return a value in the form in which the library holds it. Equal versions are equal there."""
    if isinstance(value, Semver):
        dash, release = "-" if value.prerelease else "", f"{value.major}.{value.minor}.{value.patch}"
        return bytearray(f"v{release}{dash}{'.'.join(map(str, value.prerelease))}".encode())
    scale = "" if value.scale is None else value.scale
    return bytearray(f"q{value.nano} {scale} {'f' if value.fixed else ''}".encode())


@lru_cache(maxsize=1024)
def _unpack(data: bytes) -> Quantity | Semver:
    kind, text = chr(data[0]), data[1:].decode()
    if kind == "v":
        return semver.parse(text)
    nano, scale, fixed = text.split(" ")
    return Quantity(int(nano), int(scale) if scale else None, bool(fixed))


def _as_integer(value: Quantity) -> int:
    integer = value.as_integer()
    if integer is None:
        raise EvaluationError("a quantity that is not a whole number cannot become an integer")
    return integer


def _add(value: Quantity, other: Quantity | int) -> Quantity:
    if value.fixed:
        raise EvaluationError("a device's quantity of this size is not added to: Kubernetes would change it")
    return value + (quantity.from_integer(other) if isinstance(other, int) else other)


def _subtract(value: Quantity, other: Quantity | int) -> Quantity:
    if not isinstance(other, int):
        return _add(value, replace(other, nano=-other.nano))
    if other == _MIN_INT and value.scale is not None:
        # The one int whose negative is not an int is added there instead of subtracted, where the sum fits.
        added = _add(value, other)
        if added.as_integer() is not None:
            return added
    return _add(value, -other)


def parse_version(text: str, normalize: bool = False) -> Semver:
    """Return the version that a selector writes. Raises SemverError."""
    if len(text) > _LONGEST_VERSION:
        raise SemverError(f'"{text[:20]}..." is not a version: the maximum is {_LONGEST_VERSION} characters')
    return semver.parse(text, normalize=normalize)


def _can_parse(parse: Callable[..., Any]) -> Callable[..., bool]:
    def can_parse(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except (QuantityError, SemverError):
            return False
        return True

    return can_parse


def _read_part(name: str) -> Callable[[Semver], int]:
    return lambda version: (part := getattr(version, name)) - (2**64 if part >= 2**63 else 0)


class Overload(NamedTuple):
    """A function for one list of types. `member` is true if the first argument is written before the dot."""

    function: str
    parameters: tuple[str, ...]
    result: str
    call: Callable[..., Any]
    member: bool = True


OVERLOADS: Final = (
    Overload("quantity", ("string",), QUANTITY, quantity.parse, member=False),
    Overload("isQuantity", ("string",), "bool", _can_parse(quantity.parse), member=False),
    Overload("sign", (QUANTITY,), "int", lambda value: value.sign, member=False),
    Overload("isInteger", (QUANTITY,), "bool", lambda value: value.as_integer() is not None),
    Overload("asInteger", (QUANTITY,), "int", _as_integer),
    Overload("asApproximateFloat", (QUANTITY,), "double", Quantity.as_float),
    *(Overload("add", (QUANTITY, other), QUANTITY, _add) for other in (QUANTITY, "int")),
    *(Overload("sub", (QUANTITY, other), QUANTITY, _subtract) for other in (QUANTITY, "int")),
    *(
        Overload(name, (kind, kind), result, call)
        for kind in (QUANTITY, SEMVER)
        for name, result, call in (
            ("compareTo", "int", lambda left, right: (left > right) - (left < right)),
            ("isGreaterThan", "bool", operator.gt),
            ("isLessThan", "bool", operator.lt),
        )
    ),
    *(
        Overload(name, parameters, result, call, member=False)
        for parameters in (("string",), ("string", "bool"))
        for name, result, call in (
            ("semver", SEMVER, parse_version),
            ("isSemver", "bool", _can_parse(parse_version)),
        )
    ),
    *(Overload(name, (SEMVER,), "int", _read_part(name)) for name in ("major", "minor", "patch")),
)

_TYPES: Final = {QUANTITY: Quantity, SEMVER: Semver, "string": str, "int": int, "bool": bool}
_CALLS: Final = {(row.function, *map(_TYPES.__getitem__, row.parameters)): row.call for row in OVERLOADS}
_SHOWN: Final = {Quantity: "quantity", Semver: "version"}


def call(function: str, *arguments: Any) -> Any:
    """Call a function as the library does. Raises EvaluationError."""
    values = [_unpack(bytes(value)) if type(value) is bytearray else value for value in arguments]
    implementation = _CALLS.get((function, *map(type, values)))
    if implementation is None:
        shown = " and ".join(_SHOWN.get(type(value), type(value).__name__) for value in values)
        raise EvaluationError(f"{function} cannot be applied to {shown}")
    try:
        result = implementation(*values)
    except (QuantityError, SemverError) as error:
        raise EvaluationError(str(error)[:_LONGEST_ERROR]) from error
    return pack(result) if isinstance(result, (Quantity, Semver)) else result
