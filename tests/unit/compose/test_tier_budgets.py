"""What a ModelService says and routes while a tier has spent its budget."""

from typing import Any

import pytest

from modelplane.api.model_key import BudgetLimit, BudgetScope
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Request
from modelplane.compose.facts import ServiceFacts
from modelplane.compose.service import model_service, service_conditions
from modelplane.gateway.usage.spent_budgets import BudgetState, TierBudgets

TOMORROW = "2026-11-24T00:00:00Z"
UNKNOWN = TierBudgets(problem="no answer")


def state(percent: int, limit: BudgetLimit = BudgetLimit.TOKENS_PER_DAY) -> TierBudgets:
    return TierBudgets({1: (BudgetState(BudgetScope.KEY, limit, "1000", percent, TOMORROW),)})


def service(said: str = "", *, budget: bool = True) -> ModelService:
    paid = {"selector": {"matchLabels": {"tier": "paid"}}, "priority": 1}
    own = {"selector": {"matchLabels": {"tier": "own"}}}
    entries = [own, paid | ({"budget": {"tokensPerDay": 1000}} if budget else {})]
    condition = {
        "type": "WithinBudget",
        "status": "False",
        "reason": said,
        "lastTransitionTime": "2026-11-23T00:00:00Z",
    }
    return decode_as(
        ModelService,
        {
            "kind": "ModelService",
            "metadata": {"name": "qwen", "namespace": "ml"},
            "spec": {"endpoints": entries},
            "status": {"conditions": [condition] if said else []},
        },
    )


@pytest.mark.parametrize(
    ("said", "found", "closed", "reason"),
    [
        pytest.param("", state(99), set(), "Available", id="not spent"),
        pytest.param("", state(100), {1}, "Spent", id="spent"),
        pytest.param("Spent", state(0), set(), "Available", id="open again"),
        pytest.param("", UNKNOWN, set(), "NoMetrics", id="not known, and open before"),
        pytest.param("Spent", UNKNOWN, {1}, "Spent", id="not known, and closed before"),
        pytest.param("", state(0, BudgetLimit.COST_PER_DAY), set(), "NoPrices", id="money without prices"),
        pytest.param("Spent", None, set(), "NoMetrics", id="where nothing counts"),
    ],
)
def test_a_tier_is_closed_while_its_budget_is_spent(
    said: str, found: TierBudgets | None, closed: set[int], reason: str
) -> None:
    condition = service_conditions.within_budget(service(said), found, are_counted=False)
    assert condition is not None
    assert (set(service_conditions.list_closed_entries(service(said), found)), condition.reason) == (
        closed,
        reason,
    )


def test_a_service_without_budgets_says_nothing() -> None:
    assert service_conditions.within_budget(service(budget=False), state(100), are_counted=True) is None


def endpoint(name: str, tier: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "ml",
        "labels": {"tier": tier},
        "uid": name,
        "resourceVersion": "1",
    }
    return {"kind": "ModelEndpoint", "metadata": metadata, "spec": {"url": "https://api.example.com"}}


def composed(found: TierBudgets, *endpoints: dict[str, Any]) -> Composition:
    known = {each.key: () for each in model_service.requirements(service())} | {"endpoints": endpoints}
    done = model_service.compose(Request(service(), {}, known, ServiceFacts(tier_budgets=found)))
    assert isinstance(done, Composition)
    return done


def test_requests_go_to_the_other_tiers() -> None:
    (route,) = composed(state(100), endpoint("paid", "paid"), endpoint("own", "own")).routes
    assert [each.name for each in route.backends] == ["ml/own"]


def test_a_service_that_has_only_closed_tiers_says_so() -> None:
    done = composed(state(100), endpoint("paid", "paid"))
    (route,) = done.routes
    assert (route.backends, "a budget in spec.endpoints is spent" in route.unavailable) == ((), True)
    resolved = next(each for each in done.conditions if each.type == "EndpointsResolved")
    assert "a budget in spec.endpoints is spent" in resolved.message
