"""Decisions on a step of a canary."""

from fractions import Fraction

import pytest

from modelplane.deciders.canary import (
    WINDOW_S,
    Answers,
    Decision,
    Evidence,
    Limits,
    Outcome,
    Sample,
    decide,
)

RATIO = Limits(latency_ratio=Fraction("1.5"))
NEW, OLD = Answers(200, 2, 200, 20_000), Answers(1000, 10, 1000, 100_000)
TOLD = (
    "new revision 200 answers, 1% errors, 100 ms on average; "
    "old revision 1,000 answers, 1% errors, 100 ms on average"
)


def outcome(
    new: Answers, old: Answers = OLD, limits: Limits = RATIO, left_s: float = 0, problem: str = ""
) -> Decision:
    return decide(Evidence((Sample(0.0, new, old),)), limits, left_s=left_s, problem=problem)


@pytest.mark.parametrize(
    ("decision", "expected", "message"),
    [
        pytest.param(outcome(NEW), Outcome.ENDED, TOLD, id="no limit is exceeded"),
        pytest.param(outcome(NEW, left_s=0.1), Outcome.GOES_ON, TOLD, id="the step is not over"),
        pytest.param(
            outcome(Answers(200, 11, 200, 1)),
            Outcome.ABORTED,
            "5.5% of 200 answers of the new revision are errors, more than 5%; of the old revision, 1% of "
            "1,000",
            id="errors",
        ),
        pytest.param(
            outcome(Answers(200, 11, 200, 1), Answers(), left_s=600),
            Outcome.ABORTED,
            "5.5% of 200 answers of the new revision are errors, more than 5%; of the old revision, none",
            id="errors in the middle of a step, with nothing to compare with",
        ),
        pytest.param(outcome(Answers(200, 10, 200, 1)), Outcome.ENDED, None, id="as many errors as may be"),
        pytest.param(
            outcome(Answers(99, 99)),
            Outcome.HOLDS,
            "a decision needs 100 answers of the new revision, and there are 99",
            id="too few answers, all of them errors",
        ),
        pytest.param(
            outcome(Answers()),
            Outcome.HOLDS,
            "a decision needs 100 answers of the new revision, and there are 0",
            id="no answers",
        ),
        pytest.param(
            outcome(Answers(100, 50, 100, 1), Answers(100, 50, 100, 1)),
            Outcome.HOLDS,
            "the old revision fails as often: new revision 100 answers, 50% errors, 0 ms on average; old "
            "revision 100 answers, 50% errors, 0 ms on average",
            id="both fail",
        ),
        pytest.param(
            outcome(Answers(100, 50, 100, 1), Answers(99, 99, 99, 1)),
            Outcome.ABORTED,
            None,
            id="the old revision has too few answers to be the excuse",
        ),
        pytest.param(
            outcome(Answers(200, 0, 200, 30_200)),
            Outcome.ABORTED,
            "an answer of the new revision takes 151 ms on average, more than 1.5 times the 100 ms of the "
            "old revision",
            id="slow",
        ),
        pytest.param(outcome(Answers(200, 0, 200, 30_000)), Outcome.ENDED, None, id="as slow as it may be"),
        pytest.param(
            outcome(Answers(200, 0, 200, 30_200), limits=Limits()),
            Outcome.ENDED,
            None,
            id="times are not compared",
        ),
        pytest.param(
            outcome(Answers(200, 0, 99, 99_000)),
            Outcome.HOLDS,
            "a comparison of times needs 100 answers of the new revision, and there are 99",
            id="too few times",
        ),
        pytest.param(
            outcome(Answers(200, 0, 200, 30_200), Answers(99, 0, 99, 9_900)),
            Outcome.HOLDS,
            "a comparison of times needs 100 answers of the old revision, and there are 99",
            id="too little to compare with",
        ),
        pytest.param(
            outcome(Answers(200, 0, 200, 200), Answers(200, 0, 200, 0)),
            Outcome.ENDED,
            None,
            id="times of less than a millisecond",
        ),
        pytest.param(
            outcome(Answers(200, 200), problem="no pod is ready"),
            Outcome.HOLDS,
            "cannot count responses: no pod is ready",
            id="a gateway is missing",
        ),
    ],
)
def test_a_decision(decision: Decision, expected: Outcome, message: str | None) -> None:
    assert decision.outcome is expected
    assert message in (None, decision.message)


def after(samples: list[Sample], least: int = 10) -> Evidence:
    evidence = Evidence()
    for each in samples:
        evidence = evidence.add_sample(each, least)
    return evidence


def test_old_answers_are_dropped_once_there_are_newer_ones() -> None:
    errors = [Sample(0.0, Answers(100, 100), Answers(100))]
    good = [Sample(each, Answers(10), Answers(10)) for each in (100.0, WINDOW_S - 1)]
    assert after([*errors, *good]).new == Answers(120, 100)
    assert after([*errors, *good, Sample(WINDOW_S, Answers(1), Answers(1))]).new == Answers(21)


def test_old_answers_stay_while_they_are_needed() -> None:
    rare = [Sample(each * WINDOW_S, Answers(1), Answers(1)) for each in range(30)]
    assert after(rare).new == Answers(10)
    without_old = [Sample(each * WINDOW_S, Answers(1)) for each in range(30)]
    assert after(without_old).new == Answers(30), "the old revision has none to spare"


def test_a_long_window_has_a_bounded_number_of_samples_and_loses_no_answer() -> None:
    many = [Sample(each * 2.0, Answers(1, 0, 1, 7), Answers()) for each in range(10_000)]
    evidence = after(many)
    assert len(evidence.samples) <= 240
    assert evidence.new == Answers(10_000, 0, 10_000, 70_000)
