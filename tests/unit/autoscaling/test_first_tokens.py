"""Counts of streams by the time to their first token."""

import re
from pathlib import Path

import pytest

from modelplane.api.fields.requests.first_token import BOUNDS_S, BUCKETS
from modelplane.deciders.autoscaling.evidence import count_late, find_percentile_s, is_missed, sum_counts
from modelplane.telemetry import metric_definitions

MODULE = Path(__file__).parents[3] / "gateway-module" / "src" / "endpoint.rs"


def counts(**by_bound: int) -> tuple[int, ...]:
    """Return counts by the upper bounds of their buckets, as in ``ms300``; ``rest`` is above all."""
    names = [f"ms{round(bound * 1000)}" for bound in BOUNDS_S]
    assert set(by_bound) <= {*names, "rest"}
    return tuple(by_bound.get(name, 0) for name in (*names, "rest"))


def test_the_buckets_are_those_of_the_gateway_module() -> None:
    written = re.search(r"BOUNDS_MS: .*?=\s*\[(.*?)\];", MODULE.read_text(), re.DOTALL)
    assert written is not None
    assert [int(each) / 1000 for each in re.findall(r"[\d_]+", written[1])] == list(BOUNDS_S)
    assert list(BOUNDS_S) == sorted(BOUNDS_S)
    assert metric_definitions.GATEWAY_FIRST_TOKEN.buckets == BOUNDS_S


@pytest.mark.parametrize(
    ("goal_s", "expected"),
    [
        pytest.param(0.2, 14, id="a bound divides exactly"),
        pytest.param(0.25, 9, id="half of the bucket of the goal"),
        pytest.param(0.3, 4, id="at its upper bound"),
        pytest.param(60.0, 4, id="above all bounds"),
    ],
)
def test_streams_later_than_a_goal_are_counted(goal_s: float, expected: float) -> None:
    assert count_late(counts(ms100=7, ms300=10, rest=4), goal_s) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param({}, False, id="no stream"),
        pytest.param({"ms5000": 2}, False, id="two streams, whatever they took"),
        pytest.param({"ms5000": 3}, True, id="three late ones of three"),
        pytest.param({"ms100": 57, "ms5000": 3}, False, id="exactly 5 of 100"),
        pytest.param({"ms100": 56, "ms5000": 3}, True, id="more than 5 of 100"),
    ],
)
def test_a_goal_is_missed_by_more_than_a_few_streams(found: dict[str, int], expected: bool) -> None:
    assert is_missed(counts(**found), 1.0) is expected


def test_the_percentile_is_the_bound_below_which_most_streams_are() -> None:
    assert find_percentile_s(counts(ms100=95, ms300=5)) == 0.1
    assert find_percentile_s(counts(ms100=94, ms300=6)) == 0.3
    assert find_percentile_s(counts(rest=1)) is None
    assert find_percentile_s(counts()) is None


def test_several_counts_are_summed() -> None:
    assert sum_counts([counts(ms20=1), counts(ms20=2, rest=1)]) == counts(ms20=3, rest=1)
    assert sum_counts([]) == (0,) * BUCKETS
