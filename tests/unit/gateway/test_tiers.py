"""Which backends of a route with tiers a request asks, one after the other."""

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from modelplane.gateway.envoy.priority_groups import MOST_PER_TIER, Shares, plan_attempts
from modelplane.gateway.route_table import Backend


def backend(priority: int, number: int, weight: int = 1) -> Backend:
    return Backend(f"ml/{priority}-{number}", (("10.0.0.1", 80),), weight, priority=priority)


def chosen(shares: Shares, number: int) -> Backend:
    """Return what Envoy chooses: the backend into whose part of the whole a number falls."""
    number %= sum(weight for _, weight in shares)
    for each, weight in shares:
        if number < weight:
            return each
        number -= weight
    raise AssertionError("the parts do not add up")


def whole(groups: Sequence[Shares], priority: int) -> int:
    """Return the whole of a tier, which is the same at each of its attempts."""
    (total,) = {sum(weight for _, weight in shares) for shares in groups if shares[0][0].priority == priority}
    return total


def requests(groups: Sequence[Shares], priority: int) -> Iterator[list[Backend]]:
    """Yield the backends of a tier that each request asks, over all random numbers."""
    of_tier = [shares for shares in groups if shares[0][0].priority == priority]
    for number in range(whole(groups, priority)):
        yield [chosen(shares, number) for shares in of_tier]


@st.composite
def routes(draw: st.DrawFn) -> list[Backend]:
    sizes = draw(st.dictionaries(st.integers(0, 9), st.integers(1, 9), min_size=2, max_size=4))
    weights = st.integers(1, 12)
    return [
        backend(priority, number, draw(weights)) for priority, size in sizes.items() for number in range(size)
    ]


@settings(max_examples=40, deadline=None)
@given(routes())
def test_a_request_asks_each_tier_in_turn_and_no_backend_twice(backends: list[Backend]) -> None:
    groups = plan_attempts(backends)
    sizes = Counter(each.priority for each in backends)
    asked = [shares[0][0].priority for shares in groups]
    assert asked == [
        priority for priority in sorted(sizes) for _ in range(min(sizes[priority], MOST_PER_TIER))
    ]
    for priority, size in sizes.items():
        for request in requests(groups, priority):
            assert {each.priority for each in request} == {priority}
            assert len({each.name for each in request}) == min(size, MOST_PER_TIER)


@settings(max_examples=40, deadline=None)
@given(routes(), st.integers(0, 2**64 - 1), st.data())
def test_a_request_is_answered_by_the_first_tier_that_has_a_healthy_backend(
    backends: list[Backend], number: int, data: st.DataObject
) -> None:
    """Less than three backends of a tier fail, or all of them."""
    names = {priority: sorted(b.name for b in backends if b.priority == priority) for priority in range(10)}
    failed: set[str] = set()
    for tier in filter(None, names.values()):
        some = st.sets(st.sampled_from(tier), max_size=min(len(tier), MOST_PER_TIER - 1))
        failed |= data.draw(some | st.just(set(tier)))
    asked = [chosen(shares, number) for shares in plan_attempts(backends)]
    answering = next((each.priority for each in asked if each.name not in failed), None)
    healthy = [each.priority for each in backends if each.name not in failed]
    assert answering == min(healthy, default=None)


@settings(max_examples=40, deadline=None)
@given(routes())
def test_the_first_attempt_at_a_tier_goes_by_weight(backends: list[Backend]) -> None:
    groups = plan_attempts(backends)
    for priority in {each.priority for each in backends}:
        first = Counter(request[0].name for request in requests(groups, priority))
        tier = {each.name: each.weight for each in backends if each.priority == priority}
        assert {name: Fraction(count, first.total()) for name, count in first.items()} == {
            name: Fraction(weight, sum(tier.values())) for name, weight in tier.items()
        }


@pytest.mark.parametrize(
    ("size", "several"), [(2, 1), (3, 2), (5, 4), (32, 4), (33, 3), (64, 2), (65, 1), (300, 1)]
)
def test_several_backends_take_over_the_requests_of_one_that_fails(size: int, several: int) -> None:
    groups = plan_attempts([*(backend(0, number) for number in range(size)), backend(1, 0)])
    gone = min(each.name for each, _ in groups[0])
    over = Counter(request[1].name for request in requests(groups, 0) if request[0].name == gone)
    assert (len(over), max(over.values()) - min(over.values())) == (several, 0)
    assert max(len(shares) for shares in groups) <= max(size, 128)


def test_backends_of_one_priority_are_no_tiers() -> None:
    assert plan_attempts([backend(3, 0), backend(3, 1)]) == []
    assert plan_attempts([]) == []
