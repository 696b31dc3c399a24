"""How much one placement may search."""

from random import Random

import pytest

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
    Pool,
    Role,
    schedule,
)
from modelplane.scheduler.search_budget import SearchBudget

GPU = Device("gpu", "gpu.example.com", 8, Claim.DRA, "gpu")


def engine(name: str, copies: int, gpus: int = 1, workers: int = 0) -> Engine:
    asks = (DeviceRequest("gpu", gpus, ('device.driver == "gpu.example.com"',)),)
    if not workers:
        return Engine(name, copies, (Member(requests=asks),))
    return Engine(name, copies, (Member(Role.LEADER, 1, asks), Member(Role.WORKER, workers, asks)))


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
