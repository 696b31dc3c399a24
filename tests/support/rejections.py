"""Rejections in tests: as the text that a person reads."""

from modelplane.api.rejected import Rejected


def message_of(rejected: Rejected | object) -> str:
    """Return the message of a rejection; an empty text for anything else."""
    return rejected.message if isinstance(rejected, Rejected) else ""
