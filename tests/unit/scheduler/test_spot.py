"""Spot pools: which replicas are placed there, at which price, and which of them leave first."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from modelplane.api.fields.deployment.placement_settings import SpotFallback
from modelplane.scheduler import (
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    PlacedEngine,
    PlacedMember,
    Placement,
    PlacementPolicy,
    Pool,
    Reason,
    Replica,
    ResolvedRequest,
    Role,
    Spot,
    Surge,
    list_alternatives,
    schedule,
)

GPU = (DeviceRequest("gpu"),)
CLAIM = (ResolvedRequest("gpu", "gpu", 1, ()),)
WAITS = SpotFallback.NONE


def pool(name: str, nodes: int, price: int = 0, **fields: Any) -> Pool:
    device = Device("gpu", "gpu", 1, device_class_name="gpu")
    return replace(Pool(name, nodes, (device,), currency="USD", prices=(price,)), **fields)


def cluster(name: str, *pools: Pool) -> Cluster:
    return Cluster(name, gateway_address="192.0.2.1", pools=pools)


def deployment(replicas: int = 1, spot: Spot | None = None, **fields: Any) -> Deployment:
    engines = (Engine("main", members=(Member(requests=GPU),)),)
    return replace(Deployment("ml", "qwen", "own", replicas, engines, spot=spot), **fields)


def replica(name: str, where: str, pool: str, index: int = 0, **fields: Any) -> Replica:
    placed = (PlacedEngine("main", 1, (PlacedMember(Role.STANDALONE, pool, 1, CLAIM),)),)
    return replace(Replica("ml", name, "own", "own", where, index, placed, ready=True), **fields)


def pools_of(placement: Placement) -> Counter[str]:
    return Counter(each.engines[0].members[0].pool for each in placement.assignments if not each.leaving)


BOTH = cluster("a", pool("spot", 4, 1, spot=True), pool("fixed", 4, 3))


@pytest.mark.parametrize(
    ("spot", "expected"),
    [
        pytest.param(None, {"fixed": 3}, id="no consent, no spot"),
        pytest.param(Spot(), {"spot": 3}, id="spot pools come first"),
        pytest.param(Spot(1), {"fixed": 1, "spot": 2}, id="base on demand"),
        pytest.param(Spot(5), {"fixed": 3}, id="a base above the number of replicas"),
        pytest.param(Spot(1, WAITS), {"fixed": 1, "spot": 2}, id="base without fallback"),
    ],
)
def test_replicas_are_placed_on_the_pools_that_the_deployment_allows(
    spot: Spot | None, expected: dict[str, int]
) -> None:
    assert pools_of(schedule(Fleet((BOTH,)), deployment(3, spot))) == expected


def test_without_room_on_spot_they_go_on_demand_unless_they_are_to_wait() -> None:
    fleet = Fleet((cluster("a", pool("spot", 1, spot=True), pool("fixed", 4)),))
    assert pools_of(schedule(fleet, deployment(3, Spot()))) == {"spot": 1, "fixed": 2}
    waiting = schedule(fleet, deployment(3, Spot(fallback=WAITS)))
    assert pools_of(waiting) == {"spot": 1}
    assert {each.why.reason for each in waiting.diagnosis.excluded} == {
        Reason.NOT_ON_DEMAND,
        Reason.NO_FREE_NODES,
    }
    assert [str(each) for each in waiting.diagnosis.remedies] == [
        'add 1 node to pool spot of InferenceCluster "a"',
        "set spec.placement.spot.fallback to OnDemand",
    ]


def test_the_cheapest_pool_is_not_always_spot() -> None:
    fleet = Fleet((cluster("a", pool("spot", 4, 3, spot=True), pool("fixed", 1, 2)),))
    cheapest = replace(deployment(2, Spot()), policy=PlacementPolicy.CHEAPEST)
    assert pools_of(schedule(fleet, cheapest)) == {"fixed": 1, "spot": 1}
    assert pools_of(schedule(fleet, deployment(2, Spot()))) == {"spot": 2}


def test_what_is_left_out_is_said_with_what_would_help() -> None:
    only = Fleet((cluster("a", pool("spot", 4, spot=True)),))
    assert schedule(only, deployment()).diagnosis.describe() == (
        "0 of 1 replicas placed; 1 cluster: 1 with spot pools, which spec.placement does not allow "
        "(a: the pool is spot); to place one more, allow spot pools with spec.placement.spot"
    )
    assert schedule(only, deployment(2, Spot(1))).diagnosis.describe() == (
        "1 of 2 replicas placed; 1 cluster: 1 with spot pools, which baseOnDemand 1 excludes "
        "(a: the pool is spot); to place one more, lower spec.placement.spot.baseOnDemand"
    )


def test_a_full_spot_pool_is_no_remedy() -> None:
    full = Fleet((cluster("a", pool("spot", 0, spot=True), pool("fixed", 0)),))
    sentence = schedule(full, deployment()).diagnosis.describe()
    assert "spec.placement.spot" not in sentence.partition("to place one more")[2]


def test_a_blocked_pool_gets_no_new_replica_and_keeps_the_ones_it_has() -> None:
    blocked = cluster("a", pool("spot", 4, spot=True, blocked="blocked until 12:15:00Z"), pool("fixed", 1))
    placement = schedule(Fleet((blocked,), (replica("r1", "a", "spot"),)), deployment(3, Spot()))
    assert pools_of(placement) == {"spot": 1, "fixed": 1}
    assert (
        "1 with spot pools that are losing nodes (a: blocked until 12:15:00Z)"
        in schedule(
            Fleet((replace(blocked, pools=blocked.pools[:1]),)), deployment(1, Spot())
        ).diagnosis.describe()
    )


def test_replicas_that_exist_do_not_move_for_consent_or_base() -> None:
    there = (replica("r1", "a", "spot"), replica("r2", "a", "spot", 1))
    for spot in (None, Spot(2), Spot(1, WAITS)):
        placement = schedule(Fleet((BOTH,), there), deployment(2, spot))
        assert [each.retained for each in placement.assignments] == [True, True]
        assert placement.dropped == ()


def test_the_base_counts_the_replicas_that_stay() -> None:
    there = (replica("r1", "a", "fixed"),)
    assert pools_of(schedule(Fleet((BOTH,), there), deployment(3, Spot(1)))) == {"fixed": 1, "spot": 2}
    there = (replica("r1", "a", "spot"),)
    assert pools_of(schedule(Fleet((BOTH,), there), deployment(3, Spot(1)))) == {"fixed": 1, "spot": 2}


def test_scale_down_keeps_the_base() -> None:
    there = (replica("r1", "a", "fixed", 2), replica("r2", "a", "spot"), replica("r3", "a", "spot", 1))
    assert pools_of(schedule(Fleet((BOTH,), there), deployment(1, Spot(1)))) == {"fixed": 1}
    assert pools_of(schedule(Fleet((BOTH,), there), deployment(1, Spot()))) == {"spot": 1}


def test_scale_down_waits_for_the_base_to_serve() -> None:
    there = (replica("r1", "a", "fixed", ready=False), replica("r2", "a", "spot", 1))
    assert pools_of(schedule(Fleet((BOTH,), there), deployment(1, Spot(1)))) == {"fixed": 1, "spot": 1}
    served = (replace(there[0], ready=True), there[1])
    assert pools_of(schedule(Fleet((BOTH,), served), deployment(1, Spot(1)))) == {"fixed": 1}


def test_a_limit_counts_prices_of_all_pools() -> None:
    limited = replace(deployment(4, Spot(1)), most_per_hour=5, policy=PlacementPolicy.CHEAPEST)
    placement = schedule(Fleet((BOTH,)), limited)
    assert (pools_of(placement), placement.price) == ({"fixed": 1, "spot": 2}, 5)
    assert sorted(each.spot_pools for each in placement.assignments) == [(), ("spot",), ("spot",)]


def test_alternatives_say_which_places_are_spot() -> None:
    two = Fleet((cluster("a", pool("fixed", 1, 3)), cluster("b", pool("spot", 1, 1, spot=True))))
    found = list_alternatives(two, deployment(1, Spot())).places
    assert [(each.cluster, each.spot) for each in found] == [("b", True), ("a", False)]
    assert [each.cluster for each in list_alternatives(two, deployment()).places] == ["a"]


def test_surge_replicas_keep_the_places_of_the_others() -> None:
    there = (replica("r1", "a", "fixed", behind=True), replica("r2", "a", "spot", 1, behind=True))
    more = schedule(Fleet((BOTH,), there), deployment(2, Spot(1)), surge=Surge(1))
    assert pools_of(more) == {"fixed": 1, "spot": 2}
    assert sum(each.surge for each in more.assignments) == 1
