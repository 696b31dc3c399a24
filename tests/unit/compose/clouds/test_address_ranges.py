from ipaddress import IPv4Network
from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from modelplane.compose.clouds.address_ranges import free_ranges, problems

VPC = {"vpcCidr": "10.0.0.0/16"}


@pytest.mark.parametrize(
    ("ranges", "within", "found"),
    [
        pytest.param({"a": "10.0.0.0/24", "b": "10.1.0.0/16"}, {}, [], id="ranges apart are fine"),
        pytest.param(
            {"a": "10.0.0.0/15", "b": "10.1.0.0/16"},
            {},
            ["a 10.0.0.0/15 and b 10.1.0.0/16 overlap: use separate ranges"],
            id="ranges that overlap",
        ),
        pytest.param(
            {"a": "10.0.0.1/24"},
            {},
            ["a 10.0.0.1/24 has bits set after the prefix: use 10.0.0.0/24"],
            id="an address inside a range",
        ),
        pytest.param(
            {"a": "10.0.0.256/24", "b": "10.0.0.0/33"},
            {},
            [
                "a 10.0.0.256/24 is not a range of IPv4 addresses",
                "b 10.0.0.0/33 is not a range of IPv4 addresses",
            ],
            id="no ranges at all",
        ),
        pytest.param(
            {"a": "10.0.16.0/20", "b": "10.1.0.0/20"},
            VPC,
            ["b 10.1.0.0/20 is not inside vpcCidr 10.0.0.0/16"],
            id="a range outside the whole",
        ),
    ],
)
def test_what_is_wrong_with_ranges_is_named_by_field(
    ranges: dict[str, str], within: dict[str, str], found: list[str]
) -> None:
    assert list(problems(ranges, within=within)) == found


@pytest.mark.parametrize(
    ("whole", "taken", "found"),
    [
        pytest.param(
            "10.0.0.0/16",
            ["10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20"],
            ["10.0.48.0/20", "10.0.64.0/20", "10.0.80.0/20"],
            id="the defaults: the next three",
        ),
        pytest.param(
            "10.0.0.0/16",
            ["10.0.208.0/20", "10.0.224.0/20"],
            ["10.0.0.0/20", "10.0.16.0/20"],
            id="the end of the whole is taken",
        ),
        pytest.param(
            "10.0.0.0/16",
            ["10.0.0.0/18", "10.0.64.0/18"],
            ["10.0.128.0/18", "10.0.192.0/18"],
            id="larger ones",
        ),
        pytest.param("10.0.0.0/16", ["10.0.0.0/17"], ["10.0.128.0/17"], id="exactly the rest"),
        pytest.param("10.0.0.0/16", ["10.0.0.0/17", "10.0.128.0/18"], [], id="no room"),
        pytest.param("10.0.0.0/24", ["10.0.0.0/20"], [], id="larger than the whole"),
    ],
)
def test_free_ranges_are_the_first_ones_that_fit(whole: str, taken: list[str], found: list[str]) -> None:
    assert list(free_ranges(whole, taken, taken)) == found


@given(
    st.lists(st.tuples(st.integers(0, 255), st.integers(0, 15), st.integers(18, 28)), min_size=1, max_size=6)
)
def test_free_ranges_are_networks_of_the_wanted_size_and_overlap_nothing(
    drawn: list[tuple[int, int, int]],
) -> None:
    whole = IPv4Network("10.0.0.0/16")
    taken = [
        IPv4Network((int(whole.network_address) + (third << 8) + (fourth << 4), length), strict=False)
        for third, fourth, length in drawn
    ]
    found = [IPv4Network(each) for each in free_ranges(str(whole), map(str, taken), map(str, taken))]
    assert [each.prefixlen for each in found] == [each.prefixlen for each in taken][: len(found)]
    assert all(each.subnet_of(whole) for each in found)
    assert not any(one.overlaps(other) for one, other in combinations(found, 2))
    assert not any(one.overlaps(other) for one in found for other in taken)
