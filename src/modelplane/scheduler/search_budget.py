"""The search budget: how much all searches of one placement may cost together.

It is counted in steps, not in time, so the answer is the same on every machine.
"""

from typing import Final

# Packing engines into pools, or requests into devices, can take for ever. This is about half a second.
_STEPS: Final = 200_000

# A hard cluster must not use up what the others need, nor the many easy ones before it what a hard one needs.
_SHARE: Final = 8
_LEAST: Final = 64


class SearchBudget:
    """The steps that are left."""

    def __init__(self) -> None:
        """Begin with all of them."""
        self._left = _STEPS

    @property
    def allowance(self) -> int:
        """Return the steps of the next search: a share of the remaining ones, and always a few."""
        return max(self._left // _SHARE, _LEAST)

    @property
    def spent(self) -> bool:
        """True if no steps are left; optional searches are then skipped."""
        return not self._left

    def spend(self, steps: int) -> None:
        """Take steps off."""
        self._left = max(self._left - steps, 0)
