"""How much one placement may search."""

from collections.abc import Sequence
from random import Random

import pytest
from msgspec.structs import replace

from modelplane import cel
from modelplane.scheduler import (
    Accounting,
    Claim,
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    PlacedEngine,
    PlacedMember,
    PlacementPolicy,
    Pool,
    Replica,
    ResolvedRequest,
    Role,
    schedule,
)
from modelplane.scheduler.free_capacity import FreeCapacity, Load
from modelplane.scheduler.placement import pool_choice
from modelplane.scheduler.placement.cost import Cost, compute_cost
from modelplane.scheduler.placement.engine_options import Option
from modelplane.scheduler.search import fit
from modelplane.scheduler.search.fit import find_first_fit
from modelplane.scheduler.search.search_budget import SELECTOR_UNITS, SearchBudget

LOOPS = "[{0}].all(x, [{0}].all(y, '{1}{2}'.contains('{1}')))"
"""A selector that is always true and costs 0.6 million units; the number makes it another one."""

GPU = Device("gpu", "gpu.example.com", 8, Claim.DRA, "gpu")


def engine(name: str, copies: int, gpus: int = 1, workers: int = 0) -> Engine:
    asks = (DeviceRequest("gpu", gpus, ('device.driver == "gpu.example.com"',)),)
    if not workers:
        return Engine(name, copies, (Member(requests=asks),))
    return Engine(name, copies, (Member(Role.LEADER, 1, asks), Member(Role.WORKER, workers, asks)))


def costly(number: int) -> str:
    return LOOPS.format(",".join(map(str, range(40))), "a" * 190, number)


def asking(*selectors: str) -> Deployment:
    member = Member(requests=(DeviceRequest("gpu", 1, selectors),))
    return Deployment("team", "qwen", "uid", 1, (Engine("qwen", 1, (member,)),))


def fleet_of(kinds: int, *replicas: Replica) -> Fleet:
    """A cluster for each of some kinds of devices; only the last one has nodes."""
    clusters = []
    for kind in range(kinds):
        nodes = 20 if kind == kinds - 1 else 0
        device = replace(GPU, attributes={"index": kind})
        pool = Pool("gpus", nodes, (device,), Accounting.DEVICES)
        clusters.append(Cluster(f"c{kind}", gateway_address="10.0.0.1", pools=(pool,)))
    return Fleet(tuple(clusters), replicas)


def holding(number: int) -> Replica:
    """A replica of another deployment, whose claim has a costly selector."""
    claims = (ResolvedRequest("gpu", "gpu", 1, (costly(number),)),)
    member = PlacedMember(Role.STANDALONE, "gpus", claims=claims)
    return Replica("other", f"r{number}", "other", "other", "c0", number, (PlacedEngine("e", 1, (member,)),))


def test_selectors_that_cost_too_much_together_for_one_device_are_an_error() -> None:
    assert len(schedule(fleet_of(1), asking(costly(1))).assignments) == 1
    with pytest.raises(
        cel.TooCostly, match=r"its 2 different device selectors may together cost 1,2\d\d,\d\d\d"
    ):
        schedule(fleet_of(1), asking(costly(1), costly(2)))


def test_selectors_that_cost_too_much_over_the_fleet_are_an_error() -> None:
    assert len(schedule(fleet_of(4), asking(costly(3))).assignments) == 1
    with pytest.raises(
        cel.TooCostly, match=("cost more than 2,000,000 units for 5 kinds of devices in the fleet")
    ):
        schedule(fleet_of(5), asking(costly(3)))


def test_the_claims_of_others_cost_a_deployment_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten replicas of another deployment have claims of 0.6 million units each."""
    evaluated: list[int] = []
    evaluate = cel.Selector.evaluate

    def counted(self: cel.Selector, device: cel.Bound) -> cel.Match | cel.NoMatch:
        evaluated.append(self.estimate)
        return evaluate(self, device)

    monkeypatch.setattr(cel.Selector, "evaluate", counted)
    fleet = fleet_of(1, *map(holding, range(10, 20)))
    assert len(schedule(fleet, asking('device.driver == "gpu.example.com"')).assignments) == 1
    assert SELECTOR_UNITS < sum(evaluated) < 1.5 * SELECTOR_UNITS


def test_a_hard_search_leaves_most_of_the_budget_to_the_next() -> None:
    budget = SearchBudget()
    before = budget.allowance
    budget.spend(before)
    assert budget.allowance > before // 2


def test_every_search_may_take_a_few_steps() -> None:
    budget = SearchBudget()
    budget.spend(10**9)
    assert (budget.spent, budget.allowance > 0) == (True, True)


@pytest.mark.parametrize("accounting", Accounting)
def test_the_search_for_the_cheapest_place_is_bounded_by_its_work(
    accounting: Accounting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight engines that fit on the cheap pools one by one, not together: almost all choices are tried."""
    tried: list[int] = []

    def counted(
        options: Sequence[Sequence[Option]], capacities: Sequence[FreeCapacity]
    ) -> tuple[Option, ...] | None:
        tried.append(len(options))
        return find_first_fit(options, capacities)

    monkeypatch.setattr(fit, "find_first_fit", counted)
    pools = tuple(
        Pool(f"p{number:02}", 1 if number < 15 else 64, (GPU,), accounting, currency="USD", prices=(price,))
        for number, price in enumerate([*range(1, 16), 10**6])
    )
    engines = tuple(engine(f"e{at}", 1, 8) for at in range(8))
    wanted = replace(asking(costly(1)), engines=engines, policy=PlacementPolicy.CHEAPEST, replicas=20)
    fleet = Fleet(tuple(Cluster(f"c{at}", gateway_address="192.0.2.1", pools=pools) for at in range(20)))
    schedule(fleet, wanted)
    # Each choice costs some microseconds for each engine, and again for each that follows it.
    assert sum(count**2 for count in tried) < 2 * 200_000


def test_the_costs_of_options_are_found_once_for_all_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang on eight pools of one fabric has 64 options."""
    found: list[Pool] = []

    def counted(pool: Pool, load: Load, currency: str) -> Cost:
        found.append(pool)
        return compute_cost(pool, load, currency)

    monkeypatch.setattr(pool_choice, "compute_cost", counted)
    pools = tuple(Pool(f"p{at}", 90, (GPU,), fabric="ib", currency="USD", prices=(at,)) for at in range(8))
    wanted = replace(asking(costly(1)), engines=(engine("e", 1, 8, 1),), policy=PlacementPolicy.CHEAPEST)
    fleet = Fleet((Cluster("c", gateway_address="192.0.2.1", pools=pools),))
    assert len(schedule(fleet, replace(wanted, replicas=40)).assignments) == 40
    assert len(found) < 5 * 64 + 2 * 40


@pytest.mark.parametrize("accounting", Accounting)
@pytest.mark.parametrize(
    ("copies", "workers", "nodes"),
    [pytest.param((5, 40), 0, 22, id="single pods"), pytest.param((7, 9), 5, 11, id="gangs")],
)
def test_the_searches_of_one_placement_are_bounded_together(
    accounting: Accounting,
    copies: tuple[int, int],
    workers: int,
    nodes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight engines that hardly fit on eight pools, or do not, on each of fifty clusters."""
    spent: list[int] = []
    spend = SearchBudget.spend

    def counted(budget: SearchBudget, steps: int) -> None:
        spent.append(steps)
        spend(budget, steps)

    monkeypatch.setattr(SearchBudget, "spend", counted)
    random = Random(1)  # noqa: S311 - it makes up sizes, and no secrets
    engines = tuple(engine(f"e{at}", random.randint(*copies), 5, workers) for at in range(8))
    clusters = tuple(
        Cluster(
            f"c{at:02}",
            gateway_address="192.0.2.1",
            pools=tuple(
                Pool(f"p{number}", nodes + random.randint(-3, 3), (GPU,), accounting, "ib")
                for number in range(8)
            ),
        )
        for at in range(50)
    )
    placement = schedule(Fleet(clusters), Deployment("ml-team", "qwen", "uid", 60, engines))
    assert placement.diagnosis.unsatisfied
    assert 0 < sum(spent) < 500_000
