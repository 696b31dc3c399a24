"""The search budget: the work that one placement may take.

It is counted in steps and in the units of CEL, not in time, so the answer is the same on every machine.
"""

from typing import Final

# Packing engines into pools, or requests into devices, can take for ever. This is about half a second.
_STEPS: Final = 200_000

# A hard cluster must not use up what the others need, nor the many easy ones before it what a hard one needs.
_SHARE: Final = 8
_LEAST: Final = 64

SELECTOR_UNITS: Final = 2_000_000
"""The highest cost of all evaluations of selectors in one placement, in Kubernetes' units: at most some
seconds. Sixteen usual selectors take as much for 4,000 different devices."""


class SearchBudget:
    """The steps and the units that are left."""

    def __init__(self, part: int = 1) -> None:
        """Begin with all of them, or with one of so many parts."""
        self._left = _STEPS // part
        self._units = dict.fromkeys((True, False), SELECTOR_UNITS // part)

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

    def may_evaluate(self, *, own: bool) -> bool:
        """Return True if another selector may be evaluated.

        Selectors of the deployment and those in the claims of existing replicas have an allowance each.
        """
        return self._units[own] > 0

    def charge(self, units: int, *, own: bool) -> None:
        """Charge the cost of an evaluation."""
        self._units[own] -= units
