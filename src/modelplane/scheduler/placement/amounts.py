"""Amounts in messages, written so that a reader can compare them.

A device's amount is shown as the device publishes it: with a rounded amount, a selector would match no
device, or too many.
"""

import re
from fractions import Fraction
from typing import Final

from modelplane.api.values import quantity
from modelplane.api.values.quantity import QuantityError

_WRITTEN: Final = re.compile(r"[+-]?[0-9.]+([A-Za-z]*)", re.ASCII)
_PLACES: Final = 2


def describe_request(asked: str, offered: str) -> str:
    """Return a requested amount, and in parentheses the same amount in the unit of an offered one."""
    unit = _unit(offered)
    if unit is None or _unit(asked) in (unit, None):
        return asked
    exact = Fraction(quantity.parse(asked).nano, quantity.parse(f"1{unit}").nano)
    rounded = round(exact, _PLACES)
    about = "" if rounded == exact else "about "
    shown = f"{float(rounded):.{_PLACES}f}".rstrip("0").rstrip(".")
    return f"{asked} ({about}{shown}{unit})"


def format_nodes(count: int) -> str:
    """Return a number of nodes, in words."""
    return f"{count} node" if count == 1 else f"{count} nodes"


def _unit(text: str) -> str | None:
    """Return the suffix of a quantity; None if it has an exponent, or is not a quantity."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    try:
        quantity.parse(text)
        quantity.parse(f"1{match[1]}")
    except QuantityError:
        return None
    return match[1]
