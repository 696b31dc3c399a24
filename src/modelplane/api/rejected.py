"""The result of a check that can say no."""

import msgspec


class Rejected(msgspec.Struct, frozen=True):
    """The check does not pass."""

    message: str
    """The cause and the remedy, the same text for the same input."""
