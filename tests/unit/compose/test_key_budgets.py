"""What a ModelKey says about its budgets, which is the same on every reconcile until a limit is reached."""

from typing import Any

import pytest

from modelplane.api.fields.requests.pricing import Budget
from modelplane.api.model_key import BudgetLimit, BudgetScope, ModelKey
from modelplane.api.schema.decode import decode_as
from modelplane.compose import model_key
from modelplane.compose.composition import Composition, Request
from modelplane.compose.facts import KeyFacts
from modelplane.gateway.usage.spent_budgets import BudgetState, KeyBudgets

DAY, COST = BudgetLimit.TOKENS_PER_DAY, BudgetLimit.COST_PER_MONTH
KEY, NAMESPACE = BudgetScope.KEY, BudgetScope.NAMESPACE
TOMORROW, NEXT_MONTH = "2026-11-24T00:00:00Z", "2026-12-01T00:00:00Z"
OWN = Budget(tokens_per_day=1000, cost_per_month="12.50")


def states(day: int = 0, cost: int = 0, scope: BudgetScope = KEY) -> tuple[BudgetState, ...]:
    return (
        BudgetState(scope, DAY, "1000", day, TOMORROW),
        BudgetState(scope, COST, "12.50", cost, NEXT_MONTH),
    )


SPENT = "is spent: requests are refused until"


@pytest.mark.parametrize(
    ("found", "reason", "message"),
    [
        pytest.param(KeyBudgets(states(99, 99), "USD"), "Available", "are available", id="not spent"),
        pytest.param(
            KeyBudgets(states(100), "USD"),
            "Spent",
            f"the budget of the key, 1,000 tokens a day, {SPENT} {TOMORROW}",
            id="tokens",
        ),
        pytest.param(
            KeyBudgets(states(100, 100), "USD"),
            "Spent",
            f"the budget of the key, 12.50 USD a month, {SPENT} {NEXT_MONTH}",
            id="both: the one that opens last",
        ),
        pytest.param(
            KeyBudgets(states(0, 100, NAMESPACE), "USD"),
            "Spent",
            f"the budget of all keys of the namespace, 12.50 USD a month, {SPENT} {NEXT_MONTH}",
            id="that of the namespace",
        ),
        pytest.param(
            KeyBudgets(states()), "NoPrices", "cost budgets have no effect", id="money without prices"
        ),
        pytest.param(
            KeyBudgets(states(100)), "Spent", "1,000 tokens a day", id="tokens are spent also without prices"
        ),
        pytest.param(
            KeyBudgets(problem="no answer"), "NoMetrics", "no answer", id="usage that cannot be read"
        ),
    ],
)
def test_a_condition_says_whether_a_budget_is_spent_and_until_when(
    found: KeyBudgets, reason: str, message: str
) -> None:
    condition = model_key.within_budget(OWN, None, found)
    assert condition is not None
    assert (condition.reason, condition.holds) == (reason, reason == "Available")
    assert message in condition.message


def test_a_key_without_budgets_and_one_that_nothing_counts_say_nothing() -> None:
    assert model_key.within_budget(None, None, KeyBudgets()) is None
    assert model_key.within_budget(OWN, OWN, None) is None


def _composed(found: KeyBudgets | None, **budget: Any) -> Composition:
    spec = {"hashes": [{"sha256": "a" * 64}], **budget}
    metadata = {"name": "ci", "namespace": "ml", "generation": 1}
    owner = decode_as(ModelKey, {"kind": "ModelKey", "metadata": metadata, "spec": spec})
    requirement = model_key.requirements(owner)[0].key
    composed = model_key.compose(Request(owner, {}, {requirement: ()}, KeyFacts(budgets=found)))
    assert isinstance(composed, Composition)
    return composed


def test_the_status_has_the_part_of_each_limit_that_is_used() -> None:
    composed = _composed(KeyBudgets(states(43), "USD"), budget={"tokensPerDay": 1000})
    assert composed.status == {
        "budgets": [
            {"of": "Key", "limit": "tokensPerDay", "amount": "1000", "usedPercent": 43},
            {"of": "Key", "limit": "costPerMonth", "amount": "12.50", "usedPercent": 0},
        ]
    }
    assert [each.type for each in composed.conditions] == ["Accepted", "Authenticated", "WithinBudget"]


def test_a_key_that_has_spent_its_budget_is_still_a_key_in_force() -> None:
    ready = {_composed(KeyBudgets(states(day)), budget={"tokensPerDay": 1000}).ready for day in (0, 100)}
    assert len(ready) == 1
