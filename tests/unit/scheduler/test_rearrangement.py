"""Replicas of several engines are placed together where that is cheaper than one by one."""

import importlib.util
from pathlib import Path
from random import Random
from types import ModuleType

import msgspec
import pytest

from modelplane.scheduler import (
    Claim,
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    Placement,
    PlacementPolicy,
    Pool,
    Replica,
    schedule,
    sum_usage,
)

UNIT = 10**9
ANY = 'device.driver == "gpu.example.com"'


def pool(name: str, count: int, price: float, nodes: int) -> Pool:
    device = Device("gpu", "gpu.example.com", count, Claim.DRA, "gpu")
    return Pool(name, nodes, (device,), currency="USD", prices=(round(price * UNIT),))


def cluster(name: str, *pools: Pool) -> Cluster:
    return Cluster(name, gateway_address="192.0.2.1", pools=pools)


def engine(name: str, count: int) -> Engine:
    return Engine(name, members=(Member(requests=(DeviceRequest("gpu", count, (ANY,)),)),))


def deployment(replicas: int, *engines: Engine, most: float | None = None) -> Deployment:
    limit = None if most is None else round(most * UNIT)
    return Deployment(
        "ml",
        "qwen",
        "uid",
        replicas,
        engines,
        policy=PlacementPolicy.CHEAPEST,
        currency="USD",
        most_per_hour=limit,
    )


def pools_of(placement: Placement) -> list[str]:
    return [
        " ".join(f"{each.cluster}/{member.pool}" for engine in each.engines for member in engine.members)
        for each in placement.assignments
    ]


BIG, SMALL = engine("big", 4), engine("small", 1)
# Only `cheap` and `dear` have nodes for `big`. `small` fits on each, and is cheapest on `cheap`.
FLEET = Fleet((cluster("a", pool("cheap", 4, 1, 2), pool("dear", 4, 5, 4), pool("few", 2, 2.5, 4)),))


def test_an_engine_that_fits_elsewhere_leaves_the_cheap_nodes_to_those_that_need_them() -> None:
    wanted = deployment(2, BIG, SMALL)
    together = schedule(FLEET, wanted)
    # One after the other, the second one would have only dear nodes, and both would cost 33 an hour.
    assert (pools_of(together), together.price) == (["a/cheap a/few"] * 2, (4 + 5) * 2 * UNIT)
    assert [each.index for each in together.assignments] == [0, 1]


def test_more_replicas_are_placed_where_they_fit_only_together() -> None:
    fleet = Fleet((cluster("a", pool("large", 4, 1, 2), pool("few", 2, 5, 4)),))
    wanted = deployment(2, BIG, SMALL)
    # One after the other, the first one would take all large nodes.
    assert pools_of(schedule(fleet, wanted)) == ["a/large a/few"] * 2
    third = schedule(fleet, msgspec.structs.replace(wanted, replicas=3))
    assert (len(third.assignments), third.diagnosis.placed) == (2, 2)
    assert [(each.cluster, each.pool) for each in third.diagnosis.excluded] == [("a", "large"), ("a", "few")]


def test_a_limit_is_kept() -> None:
    fleet = Fleet((cluster("a", pool("large", 4, 1, 2), pool("few", 2, 5, 4)),))
    # Two replicas together cost 28 an hour, one alone 8.
    assert pools_of(schedule(fleet, deployment(2, BIG, SMALL, most=20))) == ["a/large a/large"]
    assert len(schedule(fleet, deployment(2, BIG, SMALL, most=28)).assignments) == 2


def test_a_replica_may_go_to_a_cluster_that_had_none() -> None:
    one = cluster("a", pool("cheap", 4, 1, 2), pool("dear", 4, 5, 4))
    two = cluster("b", pool("big", 4, 3, 2), pool("few", 1, 3, 2))
    together = schedule(Fleet((one, two)), deployment(2, BIG, SMALL))
    assert pools_of(together) == ["a/cheap a/cheap", "b/big b/few"]


def test_replicas_that_run_stay_where_they_are() -> None:
    wanted = deployment(1, BIG, SMALL)
    [first] = schedule(FLEET, wanted).assignments
    there = Replica("ml", "r", "uid", "qwen", first.cluster, first.index, first.engines)
    after = schedule(Fleet(FLEET.clusters, (there,)), msgspec.structs.replace(wanted, replicas=3))
    assert [each.engines for each in after.assignments if each.retained] == [first.engines]
    assert len(after.assignments) == 3


@pytest.fixture(scope="module")
def gap() -> ModuleType:
    """The benchmark that knows the optimum."""
    path = Path(__file__).parents[3] / "benchmarks" / "placement_gap.py"
    spec = importlib.util.spec_from_file_location("placement_gap", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_small_fleets_are_filled_at_the_least_cost(gap: ModuleType) -> None:
    found = gap.run(300, 7)
    assert (found["fewer"], found["greatest_gap"]) == (0, 0.0)
    assert found["placed"] > 200


def test_no_pool_is_given_more_than_it_has_and_the_order_of_the_fleet_changes_nothing(
    gap: ModuleType,
) -> None:
    for number in range(100):
        random = Random(f"order-{number}")  # noqa: S311  # no secret
        fleet, wanted = gap.fleet(random), gap.deployment(random)
        placement = schedule(fleet, wanted)
        mixed = list(fleet.clusters)
        random.shuffle(mixed)
        assert schedule(Fleet(tuple(mixed)), wanted) == placement
        there = tuple(
            Replica("ml", f"r{at}", "uid", "model", each.cluster, each.index, each.engines)
            for at, each in enumerate(placement.assignments)
        )
        amounts = [amount for each in sum_usage(Fleet(fleet.clusters, there)) for amount in each.amounts]
        assert [amount for amount in amounts if amount.taken > amount.total] == []
