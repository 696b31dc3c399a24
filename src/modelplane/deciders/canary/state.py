"""State of a canary's observation, as the control loop hands it to the composition."""

from typing import Final

import msgspec

from modelplane.deciders.canary.decision import Decision, Outcome

COUNTS_EVERY_S: Final = 30.0
"""Least time between two statuses that differ in counts only."""

_NONE: Final = Decision(Outcome.GOES_ON, "")


class Observed(msgspec.Struct, frozen=True):
    """The last decision on a step of a canary."""

    revision: str
    step: int
    """Number of the step, from 1."""
    started: str
    """Start of the step (RFC 3339), as the status has it: a step that begins again is another one."""
    decision: Decision = _NONE


UNDECIDED: Final = Observed("", 0, "")
"""Answers are counted, and there is no decision on any step yet."""
