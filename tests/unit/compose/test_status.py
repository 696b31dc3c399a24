from typing import Any

import pytest

from modelplane.compose import owner_status
from modelplane.compose.composition import Composition, Desired, Keep
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.readiness import exists, when_condition

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def _old(type_: str, value: str, reason: str) -> dict[str, Any]:
    return {"type": type_, "status": value, "reason": reason, "lastTransitionTime": THEN}


def test_the_transition_time_stays_while_the_status_does() -> None:
    before = [_old("A", "True", "Old"), _old("B", "False", "Old")]
    written = owner_status.encode_conditions(
        [true("A", "New"), true("B", "New"), true("C", "New")], before, 3, NOW
    )
    assert [(each["type"], each["lastTransitionTime"]) for each in written] == [
        ("A", THEN),
        ("B", NOW),
        ("C", NOW),
    ]
    assert all(each["observedGeneration"] == 3 for each in written)


def test_a_message_that_is_too_long_does_not_keep_a_status_from_being_written() -> None:
    [written] = owner_status.encode_conditions([false("A", "New", "x" * 40_000)], [], 1, NOW)
    assert len(written["message"]) == 32_768


def test_only_news_is_an_event() -> None:
    before = [_old("A", "True", "Same"), _old("B", "False", "Old")]
    same, other = true("A", "Same", "another message"), false("B", "New", "why")
    assert owner_status.list_transitions([same, other], before) == [other]


def test_the_first_conditions_of_an_object_are_no_events_unless_somebody_must_act() -> None:
    waiting, broken = (
        false("A", "WaitingForModel", "why"),
        false("ReplicasScheduled", "InsufficientCapacity", "why"),
    )
    done = true("C", "Accepted", "why")
    assert owner_status.list_transitions([waiting, broken, done], []) == [broken]


def test_the_first_children_that_are_not_ready_are_named_and_the_others_counted() -> None:
    composition = Composition(tuple(Desired(key, {}, exists) for key in "edcba"))
    assert owner_status.derive_ready(composition, {}, []).message == "waiting for a, b, c and 2 more"


_CHILD = {"metadata": {"name": "c"}, "status": {"conditions": [_old("Ready", "False", "X")]}}


@pytest.mark.parametrize(
    ("composition", "observed", "holds"),
    [
        pytest.param(Composition(), {}, True, id="nothing composed, nothing unready"),
        pytest.param(Composition(ready=False), {}, False, id="the composition has the last word"),
        pytest.param(Composition((Desired("c", {}, exists),)), {}, False, id="a child that is not there"),
        pytest.param(
            Composition((Desired("c", {}, when_condition("Ready")),)),
            {"c": _CHILD},
            False,
            id="a child not ready",
        ),
        pytest.param(Composition((Keep("c"),)), {"c": _CHILD}, True, id="a kept child is not judged"),
    ],
)
def test_ready_follows_the_children(composition: Composition, observed: Any, holds: bool) -> None:
    assert owner_status.derive_ready(composition, observed, ()).holds is holds


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        pytest.param([], "Creating", id="never ready before"),
        pytest.param([_old("Ready", "True", "Available")], "Unavailable", id="ready before"),
        pytest.param([_old("Ready", "False", "Unavailable")], "Unavailable", id="lost before"),
    ],
)
def test_not_ready_tells_a_start_from_a_loss(before: Any, reason: str) -> None:
    assert owner_status.derive_ready(Composition(ready=False), {}, before) == Condition(
        "Ready", False, reason, ""
    )


def test_not_ready_has_the_first_cause() -> None:
    # The first is False while all is well.
    usual, first, second = (
        false("StandbyActive", "NotNeeded", ""),
        false("X", "Why", "because"),
        false("Y", "Z", ""),
    )
    composition = Composition(ready=False, conditions=(usual, first, second))
    assert owner_status.derive_ready(composition, {}, []) == Condition("Ready", False, "Why", "because")


def test_the_order_of_conditions_is_no_change() -> None:
    first, second = _old("A", "True", "X"), _old("B", "True", "X")
    observed = {"conditions": [first, second], "address": "a"}
    assert owner_status.is_same(observed, {"conditions": [second, first], "address": "a"})
    assert not owner_status.is_same(observed, {"conditions": [first, second], "address": "b"})
    assert not owner_status.is_same(observed, {"conditions": [first], "address": "a"})
