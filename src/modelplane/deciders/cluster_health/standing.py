"""Standing of one cluster: its state, and how long it has been watched in it.

The damper: a cluster that was lost is trusted again after 2 minutes without a bad witness, twice as long
for each further time that it was lost within an hour, and 30 minutes at most. Until then the time for which
it was lost adds up, so a cluster that comes and goes is left in the end.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from modelplane.deciders.cluster_health.evidence import Evidence, State, Witnesses, judge

TRUSTED_AFTER_S: Final = 120.0
LONGEST_S: Final = 1800.0
_RELAPSE_S: Final = 3600.0
_COUNTED: Final = 8
_ANSWERS: Final = "it was lost, and has not answered for long enough yet"


class Standing(msgspec.Struct, frozen=True):
    """State of a cluster.

    `lost_s` is the time for which it was seen lost since it was last trusted, `answers_s` that since it
    answers again, and `losses` the times at which it was lost, in the caller's seconds.
    """

    state: State = State.REACHABLE
    cause: str = ""
    lost_s: float = 0.0
    answers_s: float = 0.0
    losses: tuple[float, ...] = ()
    distrusted: bool = False
    """True from the time at which it was lost until it is trusted again."""
    silent: bool = False
    """True if its API server does not answer."""

    @property
    def trusted_after_s(self) -> float:
        """Seconds without a bad witness after which it is trusted again."""
        doublings = max(len(self.losses) - 1, 0)
        return min(TRUSTED_AFTER_S * 2.0 ** min(doublings, 10), LONGEST_S)

    def restart(self) -> "Standing":
        """Return the same state, watched from now."""
        return replace(self, lost_s=0.0, answers_s=0.0)


def advance(before: Standing, seen: Witnesses, now: float, passed_s: float) -> Standing:
    """Return the standing `passed_s` seconds later, when the witnesses say this."""
    state = judge(seen)
    if state is None:
        return before
    losses = tuple(at for at in before.losses if now - at < _RELAPSE_S)[-_COUNTED:]
    is_silent = seen.api.evidence is Evidence.BAD
    after = replace(before, state=state, cause=seen.cause, answers_s=0.0, losses=losses, silent=is_silent)
    if state is State.LOST:
        if before.state is State.LOST:
            return replace(after, lost_s=before.lost_s + passed_s)
        return replace(after, losses=(*losses, now), distrusted=True)
    if state is not State.REACHABLE or not before.distrusted:
        return after
    answers_s = before.answers_s + passed_s if before.state is State.RETURNING else 0.0
    if answers_s >= after.trusted_after_s:
        return Standing(losses=losses)
    return replace(after, state=State.RETURNING, answers_s=answers_s, cause=_ANSWERS)
