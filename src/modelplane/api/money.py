"""Money as whole numbers: amounts have at most nine decimals, so that nothing is rounded."""

from typing import Final

DECIMALS: Final = 9
"""Maximum number of decimals of an amount. A part is one of the last of them."""


def parse_amount(amount: str) -> int:
    """Return an amount, such as ``12.50``, in parts."""
    whole, _, fraction = amount.partition(".")
    return int(whole + fraction.ljust(DECIMALS, "0"))


def format_amount(parts: int, decimals: int = DECIMALS) -> str:
    """Return parts, of which one is the last of so many decimals, as an amount with two decimals at least."""
    whole, fraction = divmod(parts, 10**decimals)
    return f"{whole}.{f'{fraction:0{decimals}}'.rstrip('0').ljust(2, '0')}"
