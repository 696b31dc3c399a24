"""The meaning of a condition's reason, as a row of the reference page of conditions."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Documented:
    """The meaning of one reason of one condition."""

    kind: str
    type: StrEnum
    holds: bool
    reason: StrEnum
    meaning: str
    alarming: bool = False


def build_rows(
    kind: str, type_: StrEnum, *rows: tuple[bool, StrEnum, str], alarming: tuple[StrEnum, ...] = ()
) -> tuple[Documented, ...]:
    """Return the rows of one condition; ``alarming`` are the reasons that need an operator."""
    return tuple(
        Documented(kind, type_, holds, reason, meaning, reason in alarming and not holds)
        for holds, reason, meaning in rows
    )
