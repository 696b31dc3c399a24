"""Evidence: the answers of both revisions in one window, of which the oldest are dropped in time."""

from collections.abc import Iterator
from fractions import Fraction

import msgspec
from msgspec.structs import replace

WINDOW_S = 300.0
"""Time that a window covers at least, if it is that old: older answers count only while there are few."""

_MOST_SAMPLES = 240


class Answers(msgspec.Struct, frozen=True):
    """Attempts that endpoints have completed."""

    count: int = 0
    errors: int = 0
    """Those that were answered with 5xx, or not at all."""
    timed: int = 0
    """Those whose time is known."""
    milliseconds: int = 0
    """Sum of these times."""

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(
            self.count + other.count,
            self.errors + other.errors,
            self.timed + other.timed,
            self.milliseconds + other.milliseconds,
        )

    @property
    def error_rate(self) -> Fraction:
        """Part of the answers that are errors; none without answers."""
        return Fraction(self.errors, self.count) if self.count else Fraction(0)

    @property
    def mean_ms(self) -> Fraction | None:
        """Mean time to a complete answer; None if none is known."""
        return Fraction(self.milliseconds, self.timed) if self.timed else None


class Sample(msgspec.Struct, frozen=True):
    """Answers between two readings of the gateways, the later one at ``at``."""

    at: float
    new: Answers = Answers()
    old: Answers = Answers()


class Evidence(msgspec.Struct, frozen=True):
    """Samples of one step, the oldest first."""

    samples: tuple[Sample, ...] = ()

    @property
    def new(self) -> Answers:
        """Answers of the new revision."""
        return sum((sample.new for sample in self.samples), Answers())

    @property
    def old(self) -> Answers:
        """Answers of the old revision."""
        return sum((sample.old for sample in self.samples), Answers())

    def add_sample(self, sample: Sample, least: int) -> "Evidence":
        """Return the evidence with one more sample, of which ``least`` answers of each revision remain."""
        samples = (*self.samples, sample)
        new, old = self.new + sample.new, self.old + sample.old
        first = 0
        for earlier in samples[:-1]:
            left_new, left_old = new.count - earlier.new.count, old.count - earlier.old.count
            is_old = sample.at - earlier.at >= WINDOW_S
            if not is_old or left_new < least or left_old < least:
                break
            new, old = replace(new, count=left_new), replace(old, count=left_old)
            first += 1
        return Evidence(_bounded(samples[first:]))


def _bounded(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Return samples, pairs of which are joined if there are too many."""
    return tuple(_joined(samples)) if len(samples) > _MOST_SAMPLES else samples


def _joined(samples: tuple[Sample, ...]) -> Iterator[Sample]:
    for first in range(0, len(samples), 2):
        pair = samples[first : first + 2]
        yield Sample(
            pair[-1].at,
            sum((sample.new for sample in pair), Answers()),
            sum((sample.old for sample in pair), Answers()),
        )
