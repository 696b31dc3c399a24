"""Decisions on the number of replicas, case by case."""

from dataclasses import replace
from typing import Any

import pytest

from modelplane.api.fields.requests.first_token import BOUNDS_S, BUCKETS
from modelplane.deciders.autoscaling.decision import Outcome, ScalingSettings, decide
from modelplane.deciders.autoscaling.evidence import Evidence, Sample

SETTINGS = ScalingSettings(0, 40, requests=10, scale_down_window_s=600, scale_to_zero_window_s=900)
TICK_S = 2.0
LATE = BOUNDS_S.index(5.0)
"""Bucket of streams that wait three to five seconds for their first token."""


class Deployment:
    """A deployment whose number of replicas is decided."""

    def __init__(self, replicas: int, settings: ScalingSettings = SETTINGS) -> None:
        self.replicas, self.settings = replicas, settings
        self.evidence, self.now = Evidence(), 0.0
        self.outcome = Outcome.STEADY

    def see(
        self,
        seconds: float = TICK_S,
        *,
        complete: bool = True,
        late: int = 0,
        quick: int = 0,
        ready: int | None = None,
        **counts: int,
    ) -> int:
        """Take samples with these counts for some seconds, and return the number of replicas.

        ``late`` and ``quick`` streams begin with each sample. All replicas are ready, unless it is given.
        """
        end = self.now + seconds
        while self.now < end:
            self.now += TICK_S
            streams = tuple(quick * (bound == 0) + late * (bound == LATE) for bound in range(BUCKETS))
            sample = Sample(self.now, complete=complete, first_tokens=streams, **counts)
            serving = self.replicas if ready is None else ready
            self.evidence, decision = decide(self.settings, self.evidence, sample, self.replicas, serving)
            self.replicas, self.outcome = decision.replicas, decision.outcome
            self.limited, self.message = decision.limited, decision.message
        return self.replicas


def test_a_held_request_starts_the_first_replica_at_once() -> None:
    assert Deployment(0).see(held=1) == 1


def test_an_arrival_between_two_samples_starts_the_first_replica() -> None:
    assert Deployment(0).see(arrivals=1) == 1


def test_without_requests_none_is_started() -> None:
    deployment = Deployment(0)
    assert (deployment.see(7200), deployment.outcome) == (0, Outcome.STEADY)


def test_the_last_replica_is_given_up_after_the_idle_time_only() -> None:
    deployment = Deployment(1)
    assert deployment.see(900) == 1
    assert deployment.see(TICK_S) == 0
    assert "no requests for 900 s" in deployment.message


def test_one_request_begins_the_idle_time_anew() -> None:
    deployment = Deployment(1)
    deployment.see(800)
    deployment.see(arrivals=1)
    assert deployment.see(890) == 1
    assert deployment.see(20) == 0


def test_replicas_that_are_starting_are_not_asked_for_twice() -> None:
    deployment = Deployment(0)
    # The load is the same on every tick, while none is ready.
    assert deployment.see(120, held=30) == 3


def test_growth_in_a_minute_is_limited() -> None:
    deployment = Deployment(1)
    assert deployment.see(in_flight=400) == 5
    assert deployment.see(50, in_flight=400) == 5
    assert deployment.see(20, in_flight=400) > 5


def test_a_burst_does_not_wait_for_the_mean_of_a_minute() -> None:
    deployment = Deployment(1)
    deployment.see(60, in_flight=5)
    assert deployment.see(6, in_flight=40) == 4


def test_few_replicas_are_kept_until_the_window_is_over_and_go_in_steps() -> None:
    deployment = Deployment(20)
    assert (deployment.see(596, in_flight=10), deployment.outcome) == (20, Outcome.WAITING)
    assert deployment.see(10, in_flight=10) == 18
    assert deployment.see(10, in_flight=10) == 18
    assert deployment.see(10, in_flight=10) == 17


def test_a_gateway_that_is_missing_may_raise_and_not_lower() -> None:
    deployment = Deployment(4)
    assert deployment.see(3600, complete=False) == 4
    assert deployment.see(60, complete=False, in_flight=60) == 6


def test_a_gap_is_not_evidence_of_silence() -> None:
    deployment = Deployment(1)
    deployment.see(890)
    deployment.now += 31
    assert deployment.see(890) == 1


def test_no_sample_changes_nothing() -> None:
    evidence, decision = decide(SETTINGS, Evidence(), None, 50)
    assert (evidence, decision.replicas, decision.outcome) == (Evidence(), 50, Outcome.NO_METRICS)


@pytest.mark.parametrize(("replicas", "expected"), [(0, 2), (1, 2), (9, 5)])
def test_bounds_apply_at_once(replicas: int, expected: int) -> None:
    assert Deployment(replicas, replace(SETTINGS, min_replicas=2, max_replicas=5)).see() == expected


def test_a_maximum_that_is_too_small_is_said() -> None:
    deployment = Deployment(2, replace(SETTINGS, max_replicas=2))
    assert (deployment.see(in_flight=100), deployment.limited) == (2, True)


def test_a_maximum_that_is_too_small_is_said_until_it_sufficed_for_a_minute() -> None:
    deployment = Deployment(2, replace(SETTINGS, max_replicas=2))
    deployment.see(in_flight=100)
    assert (deployment.see(58), deployment.limited) == (2, True)
    # The mean of a minute falls below the maximum some time after the load does.
    assert (deployment.see(60), deployment.limited) == (2, False)


def test_a_maximum_is_not_said_to_suffice_before_a_minute_of_complete_counts() -> None:
    deployment = Deployment(2, replace(SETTINGS, max_replicas=2))
    assert [deployment.see(60), deployment.limited] == [2, None]
    assert [deployment.see(), deployment.limited] == [2, False]
    assert [deployment.see(complete=False), deployment.limited] == [2, None]


def test_tokens_per_second_are_a_target_of_their_own() -> None:
    deployment = Deployment(1, replace(SETTINGS, requests=None, tokens_per_second=100))
    assert deployment.see(60, tokens=500) == 3


def test_a_message_names_the_load_that_has_a_target() -> None:
    deployment = Deployment(1, replace(SETTINGS, requests=None, tokens_per_second=100))
    while deployment.outcome is not Outcome.UP:
        deployment.see(tokens=500)
    assert "tokens/s on average needs 3 replicas" in deployment.message
    assert "request" not in deployment.message


def test_a_burst_that_decides_is_named_with_its_own_figure() -> None:
    """The mean of the minute would contradict the number: 2.5 requests need one replica of ten."""
    deployment = Deployment(1)
    deployment.see(60)
    while deployment.outcome is not Outcome.UP:
        deployment.see(in_flight=30)
    assert deployment.message == "from 1 to 2: a load of 20 requests in the last 6 s needs 2 replicas"


def test_a_single_request_is_named_as_what_decides() -> None:
    deployment = Deployment(0, replace(SETTINGS, requests=None, tokens_per_second=100))
    deployment.see(held=1)
    assert deployment.message == "from 0 to 1: a request needs 1 replica"


@pytest.mark.parametrize(
    ("counts", "figure"),
    [
        pytest.param({"in_flight": 15, "tokens": 20}, "a load of 15 requests on average needs 2", id="load"),
        pytest.param(
            {"in_flight": 1, "tokens": 500}, "a load of 250 tokens/s on average needs 3", id="tokens"
        ),
    ],
)
def test_of_two_targets_the_one_that_decides_is_named(counts: dict[str, Any], figure: str) -> None:
    deployment = Deployment(1, replace(SETTINGS, tokens_per_second=100))
    while deployment.outcome is not Outcome.UP:
        deployment.see(**counts)
    assert f": {figure} replicas" in deployment.message


def test_load_within_the_tolerance_changes_nothing() -> None:
    deployment = Deployment(10)
    assert deployment.see(3600, in_flight=109) == 10
    assert deployment.see(3600, in_flight=91) == 10


def test_what_a_queue_asks_for_while_replicas_start_counts_for_half_of_the_window() -> None:
    deployment = Deployment(2)
    deployment.see(300, in_flight=20)
    assert deployment.see(100, in_flight=60, ready=2) == 6
    assert deployment.see(300, in_flight=20) == 6
    assert deployment.see(100, in_flight=20) < 6


def test_what_the_load_asks_for_while_all_replicas_serve_counts_for_the_whole_window() -> None:
    deployment = Deployment(6)
    deployment.see(300, in_flight=20)
    deployment.see(100, in_flight=60)
    assert deployment.see(590, in_flight=20) == 6
    assert deployment.see(80, in_flight=20) < 6


def test_a_start_does_not_hide_what_was_needed_before() -> None:
    deployment = Deployment(6)
    deployment.see(300, in_flight=20)
    deployment.see(60, in_flight=60)
    # One replica fails, and its requests queue at others.
    deployment.see(100, in_flight=80, ready=5)
    assert deployment.replicas == 8
    assert deployment.see(400, in_flight=20) < 8
    assert deployment.replicas >= 6


def test_unknown_readiness_keeps_the_whole_window() -> None:
    evidence, replicas = Evidence(), 6
    for tick in range(500):
        sample = Sample(tick * TICK_S, in_flight=60 if 150 <= tick < 200 else 20)
        evidence, decision = decide(SETTINGS, evidence, sample, replicas)
        replicas = decision.replicas
        assert replicas >= 6 or tick * TICK_S >= 400 + SETTINGS.scale_down_window_s


GOAL = replace(SETTINGS, first_token_s=1.0)


def test_first_tokens_that_are_late_in_two_windows_ask_for_one_more() -> None:
    deployment = Deployment(2, GOAL)
    assert deployment.see(60, in_flight=15, late=1, quick=1) == 2
    assert deployment.see(in_flight=15, late=1, quick=1) == 3
    assert deployment.message == (
        "from 2 to 3: more than 5 in 100 streams of a minute waited longer than 1000 ms for their first token"
    )


def test_late_first_tokens_ask_for_no_more_while_a_replica_starts_or_is_new() -> None:
    deployment = Deployment(2, GOAL)
    deployment.see(62, in_flight=15, late=1)
    assert deployment.see(600, in_flight=15, late=1, ready=2) == 3
    assert deployment.see(60, in_flight=15, late=1) == 3
    assert deployment.see(4, in_flight=15, late=1) == 4


def test_first_tokens_that_are_late_for_a_few_seconds_change_nothing() -> None:
    deployment = Deployment(2, GOAL)
    deployment.see(60, in_flight=15, quick=1)
    assert deployment.see(10, in_flight=15, late=1, quick=1) == 2
    assert deployment.see(60, in_flight=15, quick=1) == 2


def test_a_window_without_streams_or_with_a_few_late_ones_changes_nothing() -> None:
    for quick in (0, 1):
        deployment = Deployment(2, GOAL)
        for _ in range(20):
            deployment.see(28, in_flight=15, quick=quick)
            deployment.see(in_flight=15, late=2)
        assert deployment.replicas == 2
    silent = Deployment(2, GOAL)
    silent.see(30, in_flight=15, late=1)
    assert silent.see(3600, in_flight=15) == 2


def test_five_of_a_hundred_streams_may_be_late() -> None:
    assert Deployment(2, GOAL).see(300, in_flight=15, late=1, quick=20) == 2
    assert Deployment(2, GOAL).see(90, in_flight=15, late=1, quick=18) == 3


def test_late_first_tokens_keep_replicas_for_a_window_after_they_asked() -> None:
    deployment = Deployment(2, GOAL)
    deployment.see(62, in_flight=15, late=1)
    assert deployment.see(500, in_flight=3, quick=1) == 3
    assert deployment.see(200, in_flight=3, quick=1) < 3


def test_a_load_that_made_first_tokens_late_is_not_tried_with_as_few_replicas_for_an_hour() -> None:
    deployment = Deployment(2, GOAL)
    deployment.see(62, in_flight=15, late=1)
    # Three would do for this load by its target alone.
    assert deployment.see(3500, in_flight=15, quick=1) == 3
    assert deployment.see(900, in_flight=15, quick=1) == 2


def test_late_first_tokens_stay_within_the_bounds_and_say_so() -> None:
    deployment = Deployment(2, replace(GOAL, max_replicas=2))
    assert [deployment.see(90, in_flight=15, late=1), deployment.limited] == [2, True]


def test_a_gateway_that_is_missing_may_show_late_first_tokens() -> None:
    assert Deployment(2, GOAL).see(62, complete=False, in_flight=15, late=1) == 3


def test_unknown_readiness_counts_as_a_start() -> None:
    evidence, replicas = Evidence(), 2
    for tick in range(200):
        streams = tuple(int(bound == LATE) for bound in range(BUCKETS))
        sample = Sample(tick * TICK_S, in_flight=15, first_tokens=streams)
        evidence, decision = decide(GOAL, evidence, sample, replicas)
        assert decision.replicas == replicas
