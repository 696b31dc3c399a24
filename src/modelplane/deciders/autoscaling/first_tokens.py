"""First tokens: whether streams waited too long for their first token, from counts in buckets."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from modelplane.api.fields.requests.first_token import BOUNDS_S, BUCKETS

NONE = (0,) * BUCKETS

_LATE_PART = 0.05
"""Part of the streams that may be late: the goal is for the 95th percentile."""

_FEWEST_LATE = 3
"""Late streams below which a window says nothing, so that one slow prompt starts no replica."""


def sum_counts(counts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the sum of several counts."""
    return tuple(map(sum, zip(NONE, *counts, strict=True)))


def count_late(counts: Sequence[int], goal_s: float) -> float:
    """Return the number of streams later than a goal; those of the goal's own bucket count in part."""
    number, begin = 0.0, 0.0
    for bound, count in zip((*BOUNDS_S, 2 * BOUNDS_S[-1]), counts, strict=True):
        if goal_s < bound:
            number += count * min(1.0, (bound - goal_s) / (bound - begin))
        begin = bound
    return number


def is_missed(counts: Sequence[int], goal_s: float) -> bool:
    """Return True if too many streams were later than a goal, and enough to say so."""
    number = count_late(counts, goal_s)
    return number >= _FEWEST_LATE and number > _LATE_PART * sum(counts)


def find_percentile_s(counts: Sequence[int]) -> float | None:
    """Return the bound below which 95 of 100 streams were; None without a stream, or above all bounds."""
    enough = (1 - _LATE_PART) * sum(counts)
    below = zip(BOUNDS_S, accumulate(counts), strict=False)
    return next((bound for bound, count in below if count and count >= enough), None)
