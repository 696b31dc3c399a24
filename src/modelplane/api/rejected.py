"""The result of a check that can say no."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rejected:
    """The check does not pass."""

    message: str
    """The cause and the remedy, the same text for the same input."""
