"""One row of the table of conditions: a reason of a condition, its meaning, and its remedy."""

from enum import ReprEnum, StrEnum
from typing import Final

WARNS: Final = True
"""Last part of a row whose event is a warning: the object needs an operator."""


class Reason(str, ReprEnum):
    """A reason of a condition. It equals the word that a status contains.

    Several rows can have the same word: the condition and the message tell them apart.
    """

    type: StrEnum
    """The condition."""
    holds: bool | None
    """True and False for a condition of that status; None if the reason goes with both."""
    meaning: str
    remedy: str
    """The remedy; empty if nothing is wrong."""
    warns: bool

    def __new__(
        cls,
        type_: StrEnum,
        holds: bool | None,
        word: str,
        meaning: str,
        remedy: str = "",
        warns: bool = False,
    ) -> "Reason":
        """Return a row of the table."""
        row = str.__new__(cls, word)
        row._value_ = f"{type_}={holds}: {word}"
        row.type, row.holds, row.meaning, row.remedy, row.warns = type_, holds, meaning, remedy, warns
        return row
