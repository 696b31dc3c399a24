"""Quantities such as `80Gi`, parsed and compared exactly as in Kubernetes.

A value is a whole number of billionths; finer input is rounded away from zero.

Source: k8s.io/apimachinery v0.35, `resource.ParseQuantity`. A number that its fast path stores keeps the
power of ten it was written with, which `isInteger` reads: `1000m` is 1, yet not an integer. Every other
number is stored as an arbitrary decimal and is never an integer. Values with a binary suffix end at 2^63 - 1.
"""

import math
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

# Each part takes all it can and gives nothing back: otherwise a long text takes minutes.
_PATTERN: Final = re.compile(r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[+-]?[0-9]*+)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO: Final = -9
_MAX_INT64: Final = 2**63 - 1
_MAX_EXPONENT: Final = 1000
_FAST_PATH_DIGITS: Final = 18
_MOST_DIGITS: Final = 1000  # Kubernetes has no bound; no number of devices needs so many


class QuantityError(ValueError):
    """A text that is not a quantity; the message names the text."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact number of billionths. `scale` is the power of ten of a small number as it was written.

    `fixed` marks a device's own large number: Kubernetes would change it in place when something is added to
    it.
    """

    nano: int
    scale: int | None = field(default=None, compare=False)
    fixed: bool = field(default=False, compare=False)

    @property
    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.nano > 0) - (self.nano < 0)

    def as_integer(self) -> int | None:
        """Return the value as Kubernetes' AsInt64 does, or None if that fails."""
        if self.scale is None or self.scale < 0:
            return None
        value = self.nano // 10**9
        return value if -_MAX_INT64 - 1 <= value <= _MAX_INT64 else None

    def as_float(self) -> float:
        """Return the nearest double."""
        try:
            return self.nano / 10**9
        except OverflowError:
            return math.copysign(math.inf, self.sign)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, self._common_scale(other))

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self._common_scale(other))

    def _common_scale(self, other: "Quantity") -> int | None:
        if self.scale is None or other.scale is None:
            return None
        if not other.nano:
            return self.scale
        return other.scale if not self.nano else min(self.scale, other.scale)


@lru_cache(maxsize=1024)  # the devices of a fleet have few capacities
def parse_device_capacity(text: str) -> Quantity:
    """Return a device's own quantity. Raises QuantityError."""
    value = parse(text)
    return value if value.scale is not None else replace(value, fixed=True)


def from_integer(value: int) -> Quantity:
    """Return the quantity of an integer."""
    return Quantity(value * 10**9, 0)


def parse(text: str) -> Quantity:
    """Return the quantity that the text denotes. Raises QuantityError."""
    found = _PATTERN.fullmatch(text)
    if not text or found is None:
        raise QuantityError(f'"{text}" is not a quantity: write a number and a unit, such as 80Gi or 500m')
    sign, zeros, significant, fraction, suffix = found.groups(default="")
    base, exponent = _unit(text, suffix)
    if len(significant) + len(fraction) > _MOST_DIGITS:
        raise QuantityError(f'"{text[:20]}..." is not a quantity: it has more than {_MOST_DIGITS} digits')
    digits = int((significant or "0") + fraction)
    places = len(fraction)

    # There, ParseQuantity reads a missing number as 0: `+`, `-` and `.` are quantities.
    if _fits_fast_path(base, exponent, max(len(significant), 1), places):
        whole_digits = digits << exponent if base == 2 else digits
        scale = 0 if base == 2 else exponent - places
        if scale >= _NANO and whole_digits <= _MAX_INT64:
            value = whole_digits * 10 ** (scale - _NANO)
            return Quantity(-value if sign == "-" else value, scale)
    if not (zeros or significant or fraction):
        raise QuantityError(f'"{text}" is not a quantity: it has no digits')
    return Quantity(_rounded(digits, places, base, exponent) * (-1 if sign == "-" else 1))


def _unit(text: str, suffix: str) -> tuple[int, int]:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix]
    if suffix in _BINARY:
        return 2, _BINARY[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        known = ", ".join([*_BINARY, *filter(None, _DECIMAL)])
        raise QuantityError(f'"{text}" is not a quantity: unknown unit "{suffix}", known are {known}')
    if len(exponent[1]) > 6 or abs(int(exponent[1])) > _MAX_EXPONENT:
        raise QuantityError(f'"{text}" is not a quantity: its exponent is beyond {_MAX_EXPONENT}')
    return 10, int(exponent[1])


def _fits_fast_path(base: int, exponent: int, digits: int, places: int) -> bool:
    """Tell whether ParseQuantity keeps the number as an int64 and a power of ten."""
    if base == 10:
        return digits + places <= _FAST_PATH_DIGITS
    return not places and 15 - digits - exponent * 3 // 10 - 1 >= 0


def _rounded(digits: int, places: int, base: int, exponent: int) -> int:
    """Return the magnitude in billionths, rounded up."""
    if base == 2:
        return min(_divided_up((digits << exponent) * 10**9, places), _MAX_INT64 * 10**9)
    shift = exponent - places - _NANO
    return _divided_up(digits * 10 ** max(shift, 0), max(-shift, 0))


def _divided_up(number: int, places: int) -> int:
    """Divide by a power of ten, rounding up."""
    divisor: int = 10**places
    return -(-number // divisor)
