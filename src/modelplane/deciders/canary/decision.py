"""Decision: whether a step of a canary goes on, has ended, waits for evidence, or is aborted.

The new revision is compared with the old one in the same window, each limit by itself. Missing or too little
evidence holds the step: it is neither promoted nor aborted.
"""

from enum import StrEnum
from fractions import Fraction

import msgspec

from modelplane.deciders.canary.evidence import Answers, Evidence


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
        return Decision(Outcome.HOLDS, f"answers cannot be counted: {problem}")
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
    return (
        _errors(new, old, limits.error_rate)
        if _fails(new, limits) and not is_same
        else _slow(new, old, limits)
    )


def _fails(new: Answers, limits: Limits) -> bool:
    return new.count >= limits.least and new.error_rate > limits.error_rate


def _missing(evidence: Evidence, limits: Limits) -> str | None:
    """Return what a decision for the new revision still needs; None if nothing."""
    new, old, least = evidence.new, evidence.old, limits.least
    if _fails(new, limits):
        return f"the old revision fails as much: {describe_answers(evidence)}"
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


def _errors(new: Answers, old: Answers, most: Fraction) -> str:
    compared = f"{_percent(old.error_rate)} of {old.count:,}" if old.count else "none"
    return (
        f"{_percent(new.error_rate)} of {new.count:,} answers of the new revision are errors, more than "
        f"{_percent(most)}; of the old revision, {compared}"
    )


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
