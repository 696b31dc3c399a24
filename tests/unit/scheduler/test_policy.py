"""Which of several places that would all do gets a replica."""

from itertools import product
from random import Random

import msgspec
import pytest

from modelplane.scheduler import (
    Accounting,
    Assignment,
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
    Role,
    list_alternatives,
    schedule,
)
from modelplane.scheduler.placement.cost import count_least_stranded

UNIT = 10**9
ANY = 'device.driver == "gpu.example.com"'


def gpus(count: int, memory: int = 80) -> Device:
    return Device("gpu", "gpu.example.com", count, Claim.DRA, "gpu", capacity={"memory": f"{memory}Gi"})


def pool(  # one for each property that matters
    name: str,
    count: int,
    price: float | None = None,
    *,
    nodes: int = 4,
    accounting: Accounting = Accounting.NODES,
    currency: str = "USD",
) -> Pool:
    prices = () if price is None else (round(price * UNIT),)
    known = "" if price is None else currency
    return Pool(name, nodes, (gpus(count),), accounting, currency=known, prices=prices)


def cluster(name: str, *pools: Pool) -> Cluster:
    return Cluster(name, gateway_address="192.0.2.1", pools=pools)


def deployment(
    replicas: int = 1,
    policy: PlacementPolicy | None = None,
    *,
    count: int = 1,
    most: float | None = None,
    currency: str = "",
) -> Deployment:
    engine = Engine("main", members=(Member(requests=(DeviceRequest("gpu", count, (ANY,)),)),))
    limit = None if most is None else round(most * UNIT)
    return Deployment(
        "ml", "qwen", "uid", replicas, (engine,), policy=policy, most_per_hour=limit, currency=currency
    )


def where(placement: Placement) -> list[str]:
    return [f"{each.cluster}/{each.engines[0].members[0].pool}" for each in placement.assignments]


def test_on_a_tie_a_replica_goes_where_it_strands_the_fewest_devices() -> None:
    fleet = Fleet((cluster("a", pool("eight", 8)), cluster("b", pool("one", 1))))
    assert where(schedule(fleet, deployment())) == ["b/one"]
    assert where(schedule(fleet, deployment(2))) == ["a/eight", "b/one"], "spread comes first"


FREE_DEVICE = msgspec.structs.replace(gpus(2), name="free", claim=Claim.SYNTHETIC, device_class_name="")


@pytest.mark.parametrize(
    ("node", "stranded"),
    [
        pytest.param(pool("p", 8), 8, id="a whole node"),
        pytest.param(pool("p", 8, accounting=Accounting.DEVICES), 0, id="pods share its node"),
        pytest.param(Pool("p", 1, (gpus(8), FREE_DEVICE)), 0, id="a pod may claim nothing there"),
    ],
)
def test_what_a_place_strands_at_the_least(node: Pool, stranded: int) -> None:
    assert cluster("a", pool("larger", 9), node).smallest_node == stranded


def test_members_of_gangs_strand_per_pod_and_those_without_requests_nothing() -> None:
    asks = DeviceRequest("gpu", 3, (ANY,))
    engine = Engine("main", 2, (Member(Role.LEADER, 1, (asks,)), Member(Role.WORKER, 4, (asks,)), Member()))
    assert count_least_stranded(8, (engine,)) == 2 * (1 + 4) * 5
    assert count_least_stranded(2, (engine,)) == 0, "no node is large enough"


def test_devices_that_are_counted_strand_none() -> None:
    shared = cluster("a", pool("eight", 8, accounting=Accounting.DEVICES))
    assert where(schedule(Fleet((shared, cluster("b", pool("one", 1)))), deployment())) == ["a/eight"]


def test_then_the_cheapest_place_is_taken() -> None:
    fleet = Fleet((cluster("a", pool("p", 1, 3)), cluster("b", pool("p", 1, 2)), cluster("c", pool("p", 1))))
    assert where(schedule(fleet, deployment())) == ["b/p"]
    assert where(schedule(fleet, deployment(2))) == ["a/p", "b/p"], "a place without a price comes last"


def test_without_a_policy_the_first_pool_of_a_cluster_that_fits_is_taken() -> None:
    fleet = Fleet((cluster("a", pool("dear", 8, 9), pool("cheap", 1, 1)),))
    assert where(schedule(fleet, deployment())) == ["a/dear"]
    for policy in PlacementPolicy:
        assert where(schedule(fleet, deployment(1, policy))) == ["a/cheap"], policy


def test_cheapest_compares_prices_before_spread_and_pays_for_whole_nodes() -> None:
    eight, one = pool("eight", 8, 1), pool("one", 1, 5, nodes=2)
    fleet = Fleet((cluster("a", eight), cluster("b", one)))
    assert where(schedule(fleet, deployment(3, PlacementPolicy.CHEAPEST))) == ["a/eight", "b/one", "b/one"]


def test_pack_fills_one_cluster_before_the_next() -> None:
    fleet = Fleet(tuple(cluster(name, pool("p", 1, nodes=2)) for name in "abc"))
    assert where(schedule(fleet, deployment(3, PlacementPolicy.PACK))) == ["a/p", "a/p", "b/p"]


def test_a_replica_that_is_there_does_not_move_to_a_cheaper_place() -> None:
    clusters = (cluster("a", pool("p", 1, 9)), cluster("b", pool("p", 1, 1)))
    first = schedule(Fleet(clusters[:1]), deployment())
    there = Replica("ml", "r", "uid", "qwen", "a", 0, first.assignments[0].engines, ready=True)
    placement = schedule(Fleet(clusters, (there,)), deployment(1, PlacementPolicy.CHEAPEST))
    assert where(placement) == ["a/p"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param("", "b/p", id="that of most pools"),
        pytest.param("EUR", "a/p", id="that which the deployment names"),
        pytest.param("CHF", "a/p", id="one that no pool has: no price is known"),
    ],
)
def test_prices_in_other_currencies_count_as_not_known(wanted: str, expected: str) -> None:
    fleet = Fleet(
        (
            cluster("a", pool("p", 1, 1, currency="EUR")),
            cluster("b", pool("p", 1, 5)),
            cluster("c", pool("p", 1, 6)),
        )
    )
    assert where(schedule(fleet, deployment(1, PlacementPolicy.CHEAPEST, currency=wanted))) == [expected]


def test_a_limit_keeps_replicas_away_that_would_cost_more_and_says_what_would_help() -> None:
    fleet = Fleet((cluster("a", pool("p", 1, 2.5)), cluster("b", pool("p", 1))))
    placement = schedule(fleet, deployment(3, most=5, currency="USD"))
    assert where(placement) == ["a/p", "a/p"]
    assert placement.diagnosis.describe() == (
        "2 of 3 replicas placed; 2 clusters: 1 without a price in USD, which maxCostPerHour requires, "
        "1 above maxCostPerHour (a: 2.50 USD per hour, but only 0.00 remain)"
    )
    assert [each.why.remedy for each in placement.diagnosis.excluded] == ["raise maxCostPerHour to 7.50", ""]


def test_replicas_that_stay_count_towards_the_limit() -> None:
    clusters = (cluster("a", pool("p", 1, 2)),)
    first = schedule(Fleet(clusters), deployment())
    there = Replica("ml", "r", "uid", "qwen", "a", 0, first.assignments[0].engines, ready=True)
    placement = schedule(Fleet(clusters, (there,)), deployment(2, most=3, currency="USD"))
    assert len(placement.assignments) == 1
    assert placement.assignments[0].retained, "it is never removed because of the limit"


def test_alternatives_are_the_places_of_one_more_replica_with_their_cost() -> None:
    fleet = Fleet(
        (cluster("a", pool("eight", 8, 1)), cluster("b", pool("one", 1, 3)), cluster("c", pool("none", 0)))
    )
    found = list_alternatives(fleet, deployment(1, PlacementPolicy.CHEAPEST))
    assert [(each.cluster, each.cost.price // UNIT, each.cost.stranded) for each in found.places] == [
        ("b", 3, 0),
        ("a", 8, 7),
    ]
    assert found.currency == "USD"


def some_fleet(random: Random) -> Fleet:
    """Return a small fleet, of which some pools are full."""
    return Fleet(
        tuple(
            cluster(
                name,
                *(
                    pool(
                        f"p{number}",
                        random.choice((1, 2, 4, 8)),
                        random.choice((None, 1, 1.5, 2, 2, 7)),
                        nodes=random.randint(0, 2),
                        accounting=random.choice(tuple(Accounting)),
                        currency=random.choice(("USD", "USD", "EUR")),
                    )
                    for number in range(random.randint(1, 3))
                ),
            )
            for name in "abcd"[: random.randint(1, 4)]
        )
    )


def some_deployment(random: Random, policy: PlacementPolicy) -> Deployment:
    """Return a deployment of one replica with one or two engines."""
    engines = tuple(
        Engine(
            f"e{number}",
            random.randint(1, 2),
            (Member(requests=(DeviceRequest("gpu", random.choice((1, 2, 4)), (ANY,)),)),),
        )
        for number in range(random.randint(1, 2))
    )
    return msgspec.structs.replace(deployment(1, policy, currency="USD"), engines=engines)


def cheapest_by_trying_everything(fleet: Fleet, wanted: Deployment) -> tuple[int, ...] | None:
    """Return the best cost of all ways to give each engine a pool, by placing on clusters of only these."""
    costs = []
    for each in fleet.clusters:
        for chosen in product(each.pools, repeat=len(wanted.engines)):
            costs += forced(each, chosen, wanted, fleet)
    return min(costs, default=None)


def forced(
    each: Cluster, chosen: tuple[Pool, ...], wanted: Deployment, fleet: Fleet
) -> list[tuple[int, ...]]:
    """Return the cost of engines in exactly these pools, if they fit: engine by engine, as they are kept."""
    held: list[Replica] = []
    total = (0, 0, 0)
    for number, (engine, only) in enumerate(zip(wanted.engines, chosen, strict=True)):
        alone = msgspec.structs.replace(wanted, engines=(engine,), policy=None, uid=f"u{number}")
        there = msgspec.structs.replace(each, pools=(only,))
        placement = schedule(Fleet((there,), tuple(held)), alone)
        if not placement.assignments:
            return []
        assignment = placement.assignments[0]
        held.append(Replica("ml", f"r{number}", alone.uid, "qwen", each.name, 0, assignment.engines))
        cost = amounts(wanted.policy, assignment, fleet)
        total = tuple(map(sum, zip(total, cost, strict=True)))  # type: ignore[assignment]  # of three
    return [total]


def amounts(policy: PlacementPolicy | None, assignment: Assignment, fleet: Fleet) -> tuple[int, ...]:
    """Return unpriced parts, price and stranded devices of a placed replica, computed from its pools."""
    there = next(each for each in fleet.clusters if each.name == assignment.cluster)
    pools = {each.name: each for each in there.pools}
    unpriced = price = stranded = 0
    for engine in assignment.engines:
        (member,) = engine.members
        at = pools[member.pool]
        claimed = sum(claim.count for claim in member.claims) * engine.copies
        paid = claimed
        if at.accounting is Accounting.NODES:
            paid = at.devices[0].count * engine.copies
            stranded += paid - claimed
        if at.currency == "USD":
            price += paid * at.prices[0]
        else:
            unpriced += 1
    if policy is PlacementPolicy.CHEAPEST:
        return unpriced, price, stranded
    return stranded, unpriced, price


@pytest.mark.parametrize("policy", PlacementPolicy)
def test_the_best_place_is_found_as_by_trying_everything(policy: PlacementPolicy) -> None:
    random = Random(17)  # noqa: S311  # no secret
    placed = 0
    for _ in range(500 if policy is PlacementPolicy.CHEAPEST else 170):
        fleet, wanted = some_fleet(random), some_deployment(random, policy)
        found = [amounts(policy, each, fleet) for each in schedule(fleet, wanted).assignments]
        best = cheapest_by_trying_everything(fleet, wanted)
        assert found == ([] if best is None else [best]), (fleet, wanted)
        placed += len(found)
    assert placed > 50
