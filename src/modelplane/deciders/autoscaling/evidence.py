"""Evidence: what is remembered of the counts of a deployment, as far as decisions need it.

Its size is bounded: samples of a minute, and of longer windows only their largest recommendations. Times are
seconds of a monotonic clock. A gap begins anew: nothing is known of what happened in it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from modelplane.api.fields.requests.first_token import BOUNDS_S, BUCKETS

NONE = (0,) * BUCKETS

_LATE_PART = 0.05
"""Part of the streams that may be late: the goal is for the 95th percentile."""

_FEWEST_LATE = 3
"""Late streams below which a window says nothing, so that one slow prompt starts no replica."""

MEAN_S = 60.0
"""Seconds over which load is averaged."""
BURST_S = 6.0
"""Seconds over which a sudden load is averaged."""
MOST_GAP_S = 30.0
"""A longer time without a sample is a gap."""


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


@dataclass(frozen=True, slots=True)
class Sample:
    """Counts of a deployment's requests, by all gateways together."""

    at: float
    in_flight: int = 0
    held: int = 0
    """Requests that wait at the gateway for the first replica."""
    arrivals: int = 0
    """Requests since the last sample."""
    tokens: int = 0
    """Tokens of answers since the last sample."""
    complete: bool = True
    """False if a gateway could not be read: the counts are at least these."""
    first_tokens: tuple[int, ...] = ()
    """Streams since the last sample, by the time to their first token; empty if there was none."""

    @property
    def load(self) -> int:
        """Requests that need a replica now."""
        return self.in_flight + self.held

    @property
    def is_busy(self) -> bool:
        """True if there was a request at the time, or since the last sample."""
        return bool(self.load or self.arrivals)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence at the time of the last sample."""

    samples: tuple[Sample, ...] = ()
    """Those of the last ``MEAN_S``, oldest first."""
    since: float = 0.0
    """Time from which there is a complete sample for every moment."""
    idle_since: float = 0.0
    """Time from which no request is known, not before ``since``."""
    peaks: tuple[tuple[float, int], ...] = ()
    """Recommendations, each with its time, that no later one reaches: falling."""
    peaks_of_starts: tuple[tuple[float, int], ...] = ()
    """The same, of the times at which replicas were starting, and of a minute after each."""
    started: float | None = None
    """Time of the last sample with fewer replicas ready than asked for."""
    counts: tuple[tuple[float, int], ...] = field(default=())
    """Numbers of replicas in the last ``MEAN_S``, each with its time."""
    lowered: float | None = None
    """Time of the last decision for fewer replicas."""
    serving_since: float | None = None
    """Time from which all replicas that are asked for serve; None while one does not."""
    overloaded: tuple[float, float] | None = None
    """Time at which first tokens were late the last time, and the load of a replica then."""
    exceeded: float | None = None
    """Time of the last sample for which the bounds allowed too few replicas."""

    @property
    def now(self) -> float:
        """Time of the last sample."""
        return self.samples[-1].at

    def load(self, seconds: float) -> float:
        """Return the mean of the load over the last seconds."""
        recent = [sample.load for sample in self.samples if sample.at > self.now - seconds]
        return sum(recent) / len(recent)

    def measure_tokens_per_second(self) -> float:
        """Return the rate of tokens over the last minute; 0 with one sample, which has no duration."""
        duration = self.now - self.samples[0].at
        return sum(sample.tokens for sample in self.samples[1:]) / duration if duration > 0 else 0.0

    def count_first_tokens(self, begin: float, end: float) -> tuple[int, ...]:
        """Return the streams between two times of the last minute, by the time to their first token."""
        return sum_counts(
            sample.first_tokens for sample in self.samples if sample.first_tokens and begin < sample.at <= end
        )

    def find_peak(self, seconds: float) -> int:
        """Return the largest recommendation of the last seconds.

        While replicas start, requests queue that they would have answered. Such a recommendation is more than
        the load needs, and counts for half of the time.
        """
        begin, begin_of_starts = self.now - seconds, self.now - seconds / 2
        of_starts = (count for at, count in self.peaks_of_starts if at >= begin_of_starts)
        return max(*(count for at, count in self.peaks if at >= begin), *of_starts, 0, 0)

    def is_limited(self) -> bool | None:
        """Return whether the bounds allowed too few in the last minute; None before it has been watched."""
        if self.exceeded is not None and self.now - self.exceeded < MEAN_S:
            return True
        return False if self.now - self.since >= MEAN_S else None

    def find_fewest(self) -> int:
        """Return the smallest number of replicas in the last minute."""
        return min(count for _, count in self.counts)

    def add_sample(self, sample: Sample, replicas: int, ready: int | None = None) -> "Evidence":
        """Return the evidence with one more sample, taken while so many replicas were asked for and ready."""
        if not self.samples or not 0 < sample.at - self.now <= MOST_GAP_S:
            self = Evidence(since=sample.at, idle_since=sample.at)  # noqa: PLW0642 - begins anew
        begin = sample.at - MEAN_S
        since = self.since if sample.complete else sample.at
        return replace(
            self,
            samples=(*(earlier for earlier in self.samples if earlier.at > begin), sample),
            since=since,
            idle_since=sample.at if sample.is_busy else max(self.idle_since, since),
            started=sample.at if ready is not None and ready < replicas else self.started,
            serving_since=self._serving_since(sample.at, replicas, ready),
            counts=(*(item for item in self.counts if item[0] > begin), (sample.at, replicas)),
        )

    def _serving_since(self, now: float, replicas: int, ready: int | None) -> float | None:
        if not replicas or ready is None or ready < replicas:
            return None
        # More replicas, or fewer, are another situation.
        unchanged = not self.counts or self.counts[-1][1] == replicas
        return self.serving_since if unchanged and self.serving_since is not None else now

    def add_recommendation(self, count: int, seconds: float) -> "Evidence":
        """Return the evidence with the recommendation of now; ``seconds`` is the longest window."""
        # The mean of a minute has the queue of a start in it.
        starts = self.started is not None and self.now - self.started < MEAN_S
        former = self.peaks_of_starts if starts else self.peaks
        kept = (peak for peak in former if peak[1] > count and peak[0] >= self.now - seconds)
        peaks = (*kept, (self.now, count))
        return replace(self, peaks_of_starts=peaks) if starts else replace(self, peaks=peaks)
