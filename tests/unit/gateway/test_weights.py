"""Groups keep their proportion whatever their sizes."""

import pytest
from hypothesis import given, strategies as st

from modelplane.gateway.balancing import MAXIMUM, spread


@pytest.mark.parametrize(
    ("weights", "counts", "shares"),
    [
        pytest.param((95, 5), (1, 1), ((19,), (1,)), id="a common divisor is taken out"),
        pytest.param(
            (1, 1), (5, 1), ((1, 1, 1, 1, 1), (5,)), id="equal groups of unequal size get equal traffic"
        ),
        pytest.param(
            (80, 20), (3, 2), ((27, 27, 26), (10, 10)), id="what is left over goes to the first members"
        ),
        pytest.param((1, 1), (3, 2), ((1, 1, 1), (2, 1)), id="the scale is that of the largest group"),
        pytest.param(
            (7, 3), (2, 4), ((7, 7), (2, 2, 1, 1)), id="a small weight over many members is scaled up"
        ),
        pytest.param((1_000_000, 1), (1, 3), ((1_000_000,), (1, 1, 1)), id="nobody gets less than one"),
        pytest.param((5, 94), (0, 2), ((), (1, 1)), id="a group without members takes no part"),
        pytest.param((5, 5), (0, 0), ((), ()), id="no members at all"),
        pytest.param((), (), (), id="no groups at all"),
    ],
)
def test_spread(
    weights: tuple[int, ...], counts: tuple[int, ...], shares: tuple[tuple[int, ...], ...]
) -> None:
    assert spread(weights, counts) == shares


groups = st.lists(st.tuples(st.integers(1, MAXIMUM), st.integers(0, 40)), max_size=6)


@given(groups)
def test_every_member_gets_a_weight_that_a_gateway_accepts(drawn: list[tuple[int, int]]) -> None:
    shares = spread([weight for weight, _ in drawn], [count for _, count in drawn])
    assert [len(group) for group in shares] == [count for _, count in drawn]
    assert all(1 <= share <= MAXIMUM for group in shares for share in group)
    assert all(max(group) - min(group) <= 1 for group in shares if group)


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 40)), min_size=1, max_size=6))
def test_groups_of_moderate_weight_keep_their_proportion_exactly(drawn: list[tuple[int, int]]) -> None:
    shares = spread([weight for weight, _ in drawn], [count for _, count in drawn])
    totals = [sum(group) for group in shares]
    first = drawn[0][0]
    assert [total * first for total in totals] == [totals[0] * weight for weight, _ in drawn]
