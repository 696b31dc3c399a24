"""Number of seeds that a simulation draws. CI draws more than a developer waits for."""

import os
from typing import Final

VARIABLE: Final = "MODELPLANE_SEEDS"
"""Environment variable that multiplies the numbers."""


def drawn(count: int) -> int:
    """Return how many seeds to draw where ``count`` are drawn by default."""
    return count * int(os.environ.get(VARIABLE, "1"))
