"""The error of a model that cannot be sized, and the most that is sized."""

from typing import Final

MAX_BYTES: Final = 2**50
"""Of weights, and of KV cache. What a hostile file claims beyond it would not fit into a document."""


class Unsizable(Exception):
    """A model that cannot be sized; the message says what is missing or wrong, and the remedy."""
