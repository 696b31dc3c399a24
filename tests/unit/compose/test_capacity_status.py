"""What is published of observed capacity: it falls at once and rises late, and says why."""

import datetime as dt

import msgspec
import pytest
from hypothesis import given, strategies as st

from modelplane.api.fields.cluster.devices import Device
from modelplane.api.fields.cluster.node_pools import Accounting
from modelplane.api.fields.cluster.usable_capacity import (
    MAX_TERMS,
    DeviceCount,
    Loss,
    MissingDevices,
    UsableCapacity,
)
from modelplane.api.inference_cluster import GPUPool
from modelplane.api.schema.decode import convert
from modelplane.compose.cluster import capacity_status
from modelplane.compose.cluster.capacity_status import SETTLES_S, published, summary, vectors, why
from modelplane.compose.cluster.observed_capacity import Observation

GPU, NIC = (Device(name=name, driver=f"{name}.example.com", count=4) for name in ("gpu", "nic"))
POOL = GPUPool(name="a", nodes=3, accounting=Accounting.DEVICES, devices=(GPU, NIC))
WHOLE = msgspec.structs.replace(POOL, accounting=Accounting.NODES)
NOW = 1_700_000_000


def observed(*missing: tuple[int, int], growth: int = 0) -> Observation:
    return Observation(len(missing) + growth, growth, missing)


def amount(pool: GPUPool, usable: UsableCapacity) -> int:
    return sum(d.count * usable.nodes for d in pool.devices) - sum(
        lacks * nodes for vector, nodes in vectors(pool, usable) for lacks in vector
    )


def test_a_loss_counts_at_once_and_a_return_after_a_minute() -> None:
    full, less = observed((0, 0), (0, 0), (0, 0)), observed((0, 0), (2, 0), (0, 0))
    first = published(POOL, full, None, NOW)
    fallen = published(POOL, less, first, NOW + 1)
    assert (fallen.nodes, vectors(POOL, fallen)) == (3, (((2, 0), 1),))
    rising = published(POOL, full, fallen, NOW + 10)
    assert vectors(POOL, rising) == vectors(POOL, fallen)
    assert rising.rises_at == dt.datetime.fromtimestamp(NOW + 10 + SETTLES_S, dt.UTC)
    assert [(term.reason, term.name, term.count) for term in rising.terms] == [(Loss.RECOVERING, "gpu", 2)]
    assert published(POOL, full, rising, NOW + 30) == rising
    assert published(POOL, full, rising, NOW + 10 + SETTLES_S) == first


def test_capacity_that_comes_and_goes_is_not_used() -> None:
    """A device that is back for half a minute at a time, as a card that falls off the bus again and again."""
    full, less = observed((0, 0)), observed((1, 0))
    usable = published(POOL, less, None, NOW)
    for at in range(NOW, NOW + 20 * SETTLES_S, SETTLES_S):
        usable = published(POOL, full, usable, at)
        usable = published(POOL, full, usable, at + SETTLES_S // 2)
        assert vectors(POOL, usable) == (((1, 0), 1),)
        usable = published(POOL, less, usable, at + SETTLES_S // 2 + 1)
        assert usable.rises_at is None


def test_a_fall_elsewhere_starts_the_minute_anew() -> None:
    usable = published(POOL, observed((4, 0), (0, 0)), None, NOW)
    usable = published(POOL, observed((0, 0), (0, 0)), usable, NOW)
    usable = published(POOL, observed((0, 0), (0, 3)), usable, NOW + 50)
    assert usable.rises_at == dt.datetime.fromtimestamp(NOW + 50 + SETTLES_S, dt.UTC)
    assert published(POOL, observed((0, 0), (0, 3)), usable, NOW + 70) == usable


def test_of_a_pool_that_counts_nodes_only_whole_ones_are_usable() -> None:
    assert published(WHOLE, observed((0, 0), (1, 0), growth=1), None, NOW) == UsableCapacity(
        nodes=2, growth=1
    )


def test_many_kinds_of_nodes_stay_bounded_and_lose_capacity_only() -> None:
    pool = msgspec.structs.replace(POOL, nodes=100)
    missing = tuple((at % 5, at // 5) for at in range(1, 25)) * 2
    big = msgspec.structs.replace(
        pool, devices=(msgspec.structs.replace(GPU, count=64), msgspec.structs.replace(NIC, count=64))
    )
    many = observed(*((at, 64 - at) for at in range(60)))
    assert len(published(pool, observed(*missing), None, NOW).missing) <= MAX_TERMS
    usable = published(big, many, None, NOW)
    assert len(usable.missing) == MAX_TERMS
    assert amount(big, usable) <= 60 * 128 - 60 * 64


def test_the_sentence_for_platforms_names_pods_and_that_for_tenants_does_not() -> None:
    terms = {
        (Loss.DEVICE_TAINTED, "gpu", "gpu-error"): 1,
        (Loss.HELD_BY_OTHERS, "gpu", "batch/x"): 1,
        (Loss.HELD_BY_OTHERS, "gpu", "batch/y"): 2,
        (Loss.NODE_NOT_READY, "nodes", ""): 1,
    }
    pool = msgspec.structs.replace(POOL, nodes=3, devices=(GPU,))
    usable = published(pool, Observation(2, 0, ((0,), (4,)), terms), None, NOW)
    assert summary(pool, usable) == (
        'pool "a": 12 gpu declared, 4 usable: 1 node not ready, 1 gpu tainted gpu-error, '
        "2 gpu held by batch/y, 1 gpu held by batch/x"
    )
    assert why(pool, usable) == (
        "12 gpu declared, 4 usable: 1 node not ready, 1 gpu tainted, 3 gpu held by others"
    )
    assert why(pool, published(pool, Observation(3, 0, ((0,),) * 3), None, NOW)) == ""
    growing = published(WHOLE, observed((0, 0), growth=2), None, NOW)
    assert summary(WHOLE, growing) == 'pool "a": 3 nodes declared, 3 usable, 2 nodes through autoscaling'


def test_terms_stay_bounded_without_their_details() -> None:
    terms = {(Loss.HELD_BY_OTHERS, "gpu", f"batch/{at}"): 1 for at in range(100)}
    usable = published(POOL, Observation(3, 0, ((4, 0),), terms), None, NOW)
    assert [(term.count, term.detail) for term in usable.terms] == [(100, "")]


_VECTORS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=3)
_STEPS = st.lists(st.tuples(_VECTORS, st.integers(0, 90)), min_size=1, max_size=8)


@pytest.mark.parametrize("pool", [POOL, WHOLE], ids=["devices", "nodes"])
@given(steps=_STEPS)
def test_what_is_published_is_never_above_what_is_observed_or_declared(
    pool: GPUPool, steps: list[tuple[list[tuple[int, int]], int]]
) -> None:
    """Node by node: each published node has a counterpart that lacks no more, for pods of every size."""
    known, now = None, NOW
    for missing, passed in steps:
        now += passed
        seen = observed(*missing)
        usable = published(pool, seen, known, now)
        here = sorted(_lacks(pool, usable), key=sum)
        there = sorted(missing if pool is POOL else [each for each in missing if not any(each)], key=sum)
        assert len(here) <= len(there) <= pool.nodes
        assert amount(pool, usable) <= amount(pool, published(pool, seen, None, now))
        for size in range(1, 9):
            assert sum(8 - sum(each) >= size for each in here) <= sum(8 - sum(each) >= size for each in there)
        if known is not None and amount(pool, usable) > amount(pool, known):
            assert known.rises_at is not None
            assert now >= known.rises_at.timestamp()
        known = usable


def _lacks(pool: GPUPool, usable: UsableCapacity) -> list[tuple[int, ...]]:
    listed = [vector for vector, nodes in vectors(pool, usable) for _ in range(nodes)]
    return [(0, 0)] * (usable.nodes - len(listed)) + listed


def test_a_published_capacity_is_read_as_it_was_written() -> None:
    usable = published(POOL, observed((0, 0), (1, 2), (1, 2)), None, NOW)
    assert usable.missing == (
        MissingDevices(nodes=2, devices=(DeviceCount(name="gpu", count=1), DeviceCount(name="nic", count=2))),
    )
    decoded = convert(msgspec.to_builtins(usable), UsableCapacity)
    assert capacity_status.vectors(POOL, decoded) == (((1, 2), 2),)
