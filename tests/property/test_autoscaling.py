"""Any samples: bounds hold, load that does not change settles, and nothing is decided without evidence."""

import itertools
import math

from hypothesis import given, strategies as st

from modelplane.api.fields.requests.first_token import BOUNDS_S, BUCKETS
from modelplane.deciders.autoscaling.decision import Outcome, ScalingSettings, decide
from modelplane.deciders.autoscaling.evidence import Evidence, Sample

TICK_S = 2.0
LATE = BOUNDS_S.index(5.0)

counts = st.integers(0, 200)
bounds = st.tuples(st.integers(0, 5), st.integers(0, 20)).map(lambda pair: (pair[0], max(1, sum(pair))))
loads = st.lists(st.tuples(counts, st.integers(0, 20), st.booleans(), st.booleans()), max_size=400)


def settings_of(least_and_most: tuple[int, int], target: float = 10.0) -> ScalingSettings:
    least, most = least_and_most
    return ScalingSettings(
        least,
        most,
        requests=target,
        tokens_per_second=50.0,
        scale_down_window_s=60,
        scale_to_zero_window_s=90,
    )


def constant(load: int, seconds: float, settings: ScalingSettings, replicas: int) -> list[int]:
    """Return the numbers of replicas under a load that does not change."""
    evidence, found = Evidence(), [replicas]
    for tick in range(int(seconds / TICK_S)):
        sample = Sample(tick * TICK_S, in_flight=load)
        evidence, decision = decide(settings, evidence, sample, found[-1])
        found.append(decision.replicas)
    return found


@given(bounds, loads, st.integers(0, 40))
def test_bounds_hold_after_the_first_sample(
    limits: tuple[int, int], ticks: list[tuple[int, int, bool, bool]], replicas: int
) -> None:
    settings, evidence = settings_of(limits), Evidence()
    for tick, (in_flight, held, complete, missing) in enumerate(ticks):
        sample = Sample(tick * TICK_S, in_flight, held, in_flight, in_flight, complete)
        before = replicas
        evidence, decision = decide(settings, evidence, None if missing else sample, replicas)
        replicas = decision.replicas
        if missing:
            assert (replicas, decision.outcome) == (before, Outcome.NO_METRICS)
        else:
            assert settings.min_replicas <= replicas <= settings.max_replicas
            assert not held or replicas >= 1
            within = before <= settings.max_replicas
            assert not (held and within and replicas < before), "requests are held, so nothing is given up"


@given(bounds, st.integers(0, 300), st.integers(0, 40), st.sampled_from([1.0, 3.0, 10.0]))
def test_a_constant_load_settles_and_then_nothing_changes(
    limits: tuple[int, int], load: int, replicas: int, target: float
) -> None:
    settings = settings_of(limits, target)
    found = constant(load, 1500, settings, replicas)
    settled = found[-1]
    assert len(set(found[-100:])) == 1
    needed = min(max(math.ceil(load / target), settings.min_replicas), settings.max_replicas)
    # The tolerance allows one that is a tenth away.
    assert math.floor(needed / 1.1) - 1 <= settled <= math.ceil(needed / 0.9) + 1
    turns = [b - a for a, b in itertools.pairwise(found) if a != b]
    assert all(step > 0 for step in turns) or all(step < 0 for step in turns), "no back and forth"


@given(st.lists(counts, min_size=1, max_size=100), st.integers(2, 40))
def test_nothing_is_given_up_before_the_window_has_been_watched(load: list[int], replicas: int) -> None:
    settings, evidence = (
        ScalingSettings(0, 40, requests=10, scale_down_window_s=600, scale_to_zero_window_s=900),
        Evidence(),
    )
    for tick, in_flight in enumerate(load):
        evidence, decision = decide(settings, evidence, Sample(tick * TICK_S, in_flight), replicas)
        assert decision.replicas >= replicas
        replicas = decision.replicas


@given(st.integers(0, 200), st.integers(1, 20))
def test_the_memory_of_a_decision_is_bounded(seed: int, replicas: int) -> None:
    settings, evidence = ScalingSettings(1, 40, requests=10, scale_down_window_s=600), Evidence()
    for tick in range(600):
        sample = Sample(tick * TICK_S, in_flight=(tick * (seed + 7)) % 211)
        evidence, decision = decide(settings, evidence, sample, replicas)
        replicas = decision.replicas
    assert len(evidence.samples) <= 31
    assert len(evidence.counts) <= 31
    assert len(evidence.peaks) <= 40


@given(st.floats(1.0, 9.0), st.integers(20, 120), st.integers(1, 12))
def test_a_goal_that_more_replicas_reach_settles_and_does_not_swing(
    bearable: float, load: int, replicas: int
) -> None:
    """First tokens are late with more than ``bearable`` requests; the target of the load allows ten."""
    settings = ScalingSettings(
        1, 200, requests=10, first_token_s=1.0, scale_down_window_s=60, scale_to_zero_window_s=90
    )
    evidence, found = Evidence(), [replicas]
    for tick in range(int(3500 / TICK_S)):
        place = LATE if load / found[-1] > bearable else 0
        streams = tuple(2 * (bound == place) for bound in range(BUCKETS))
        sample = Sample(tick * TICK_S, in_flight=load, first_tokens=streams)
        evidence, decision = decide(settings, evidence, sample, found[-1], found[-1])
        found.append(decision.replicas)
    turns = [b - a for a, b in itertools.pairwise(found) if a != b]
    assert all(abs(turn) == 1 for turn in turns if turn < 0)
    changes = list(itertools.pairwise(turn > 0 for turn in turns))
    # It goes down to where first tokens are late at most once an hour, and back up.
    assert sum(a != b for a, b in changes) <= 2
    assert load / found[-1] <= bearable or found[-1] < math.ceil(load / bearable)
