"""Money as whole numbers: amounts have at most nine decimals, so that nothing is rounded."""

from typing import Final

_DECIMALS: Final = 9

UNIT: Final = 10**_DECIMALS
"""Parts of one of the currency."""


def parts(amount: str) -> int:
    """Return an amount, such as ``12.50``, in parts."""
    whole, _, fraction = amount.partition(".")
    return int(whole + fraction.ljust(_DECIMALS, "0"))


def amount_of(parts: int) -> str:
    """Return parts as an amount: all its decimals, and two at least."""
    whole, fraction = divmod(parts, UNIT)
    return f"{whole}.{f'{fraction:0{_DECIMALS}}'.rstrip('0').ljust(2, '0')}"
