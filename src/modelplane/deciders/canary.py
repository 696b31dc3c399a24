"""Canary: whether a step goes on, has ended, waits for evidence, or is aborted.

The new revision is compared with the old one in the same window, each limit by itself. Missing or too little
evidence holds the step: it is neither promoted nor aborted.
"""

from collections.abc import Iterator
from enum import StrEnum
from fractions import Fraction
from typing import Final

import msgspec
from msgspec.structs import replace

WINDOW_S = 300.0
"""Time that a window covers at least, if it is that old: older answers count only while there are few."""

_MOST_SAMPLES = 240

COUNTS_EVERY_S: Final = 30.0
"""Least time between two statuses that differ in counts only."""


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
        kept = samples[first:]
        return Evidence(tuple(_joined(kept)) if len(kept) > _MOST_SAMPLES else kept)


def _joined(samples: tuple[Sample, ...]) -> Iterator[Sample]:
    for first in range(0, len(samples), 2):
        pair = samples[first : first + 2]
        yield Sample(
            pair[-1].at,
            sum((sample.new for sample in pair), Answers()),
            sum((sample.old for sample in pair), Answers()),
        )


class Outcome(StrEnum):
    """Outcome of a decision."""

    GOES_ON = "GoesOn"
    """The step is not over."""
    HOLDS = "Holds"
    """There is no decision, and the message says why."""
    ENDED = "Ended"
    """The step is over, and no limit was exceeded."""
    ABORTED = "Aborted"
    """A limit was exceeded."""


class Limits(msgspec.Struct, frozen=True):
    """Limits beyond which a canary is aborted."""

    error_rate: Fraction = Fraction(5, 100)
    latency_ratio: Fraction | None = None
    """None to compare no times."""
    least: int = 100
    """Answers of a revision from which it is judged."""


class Decision(msgspec.Struct, frozen=True):
    """An outcome, and why."""

    outcome: Outcome
    message: str


def decide(evidence: Evidence, limits: Limits, *, left_s: float, problem: str = "") -> Decision:
    """Decide on a step that lasts ``left_s`` more seconds, at least.

    ``problem`` is the reason why answers may be missing; empty if none are.
    """
    if problem:
        return Decision(Outcome.HOLDS, f"cannot count responses: {problem}")
    if exceeded := _exceeded(evidence.new, evidence.old, limits):
        return Decision(Outcome.ABORTED, exceeded)
    if left_s > 0:
        return Decision(Outcome.GOES_ON, describe_answers(evidence))
    if missing := _missing(evidence, limits):
        return Decision(Outcome.HOLDS, missing)
    return Decision(Outcome.ENDED, describe_answers(evidence))


def _exceeded(new: Answers, old: Answers, limits: Limits) -> str | None:
    """Return the limit that the new revision exceeds; None if it exceeds none, or if that is unknown."""
    is_same = old.count >= limits.least and old.error_rate >= new.error_rate
    if is_same or not _fails(new, limits):
        return _slow(new, old, limits)
    compared = f"{_percent(old.error_rate)} of {old.count:,}" if old.count else "none"
    return (
        f"{_percent(new.error_rate)} of {new.count:,} answers of the new revision are errors, more than "
        f"{_percent(limits.error_rate)}; of the old revision, {compared}"
    )


def _fails(new: Answers, limits: Limits) -> bool:
    return new.count >= limits.least and new.error_rate > limits.error_rate


def _missing(evidence: Evidence, limits: Limits) -> str | None:
    """Return what a decision for the new revision still needs; None if nothing."""
    new, old, least = evidence.new, evidence.old, limits.least
    if _fails(new, limits):
        return f"the old revision fails as often: {describe_answers(evidence)}"
    if new.count < least:
        return f"a decision needs {least:,} answers of the new revision, and there are {new.count:,}"
    if limits.latency_ratio is not None and min(new.timed, old.timed) < least:
        of, there = ("new", new.timed) if new.timed < least else ("old", old.timed)
        return f"a comparison of times needs {least:,} answers of the {of} revision, and there are {there:,}"
    return None


def describe_answers(evidence: Evidence) -> str:
    """Return the answers of both revisions as a sentence."""
    return f"new revision {_of(evidence.new)}; old revision {_of(evidence.old)}"


def _of(answers: Answers) -> str:
    if not answers.count:
        return "without answers"
    time = "" if answers.mean_ms is None else f", {round(answers.mean_ms)} ms on average"
    return f"{answers.count:,} answers, {_percent(answers.error_rate)} errors{time}"


def _slow(new: Answers, old: Answers, limits: Limits) -> str | None:
    """Return that the new revision is too slow; None if it is not, or if that is unknown."""
    most, took, before = limits.latency_ratio, new.mean_ms, old.mean_ms
    if most is None or took is None or before is None or min(new.timed, old.timed) < limits.least:
        return None
    # Times are whole milliseconds: below one, a ratio tells nothing.
    if took <= most * max(before, Fraction(1)):
        return None
    return (
        f"an answer of the new revision takes {round(took):,} ms on average, more than {float(most):g} times "
        f"the {round(before):,} ms of the old revision"
    )


def _percent(rate: Fraction) -> str:
    return f"{float(rate * 100):.2f}".rstrip("0").rstrip(".") + "%"


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
