"""Condition and status of a ModelKey's budgets: is one spent, and until when."""

from typing import Any

from modelplane.api.conditions.reasons import ModelKeyCondition
from modelplane.api.conditions.reasons import ModelKeyReason as Reason
from modelplane.api.fields.requests.pricing import Budget
from modelplane.api.inference_gateway import DEFAULT_NAME
from modelplane.api.model_key import BudgetLimit, BudgetScope
from modelplane.compose.conditions import Condition, false, true
from modelplane.gateway.usage.spent_budgets import KeyBudgets, State, find_spent

_TYPE = ModelKeyCondition.WITHIN_BUDGET
_NAMES = {
    BudgetLimit.TOKENS_PER_DAY: "tokens a day",
    BudgetLimit.TOKENS_PER_MONTH: "tokens a month",
    BudgetLimit.COST_PER_DAY: "a day",
    BudgetLimit.COST_PER_MONTH: "a month",
}
IN_MONEY = (BudgetLimit.COST_PER_DAY, BudgetLimit.COST_PER_MONTH)
"""Limits in the currency of the prices."""


def within_budget(own: Budget | None, granted: Budget | None, found: KeyBudgets | None) -> Condition | None:
    """State whether a key may go on; None for one without a budget, and where nothing counts."""
    if found is None or (own is None and granted is None):
        return None
    if found.problem:
        message = f"requests are refused or served as before: {found.problem}"
        return false(_TYPE, Reason.NOT_MEASURED, message)
    if last := find_spent(found.states):
        is_own = last.scope is BudgetScope.KEY
        whose = "the key" if is_own else "all keys of the namespace"
        limit = amount_of_limit(last, found.currency)
        message = f"the budget of {whose}, {limit}, is spent: requests are refused until {last.opens}"
        return false(_TYPE, Reason.SPENT, message)
    if not found.currency and any(state.limit in IN_MONEY for state in found.states):
        message = (
            f'budgets in money have no effect: InferenceGateway "{DEFAULT_NAME}" has no '
            "spec.pricing: ask your platform team to add it"
        )
        return false(_TYPE, Reason.NO_PRICES, message)
    return true(_TYPE, Reason.AVAILABLE, "no budget of the key or its namespace is spent")


def status(found: KeyBudgets | None) -> dict[str, Any]:
    """Return the status of the budgets, in wire form."""
    if found is None or not found.states:
        return {}
    written = [
        {
            "of": state.scope.value,
            "limit": state.limit.value,
            "amount": state.amount,
            "usedPercent": state.percent,
        }
        for state in found.states
    ]
    return {"budgets": written}


def amount_of_limit(state: State, currency: str) -> str:
    """Return a limit in words."""
    if state.limit in IN_MONEY:
        return f"{state.amount} {currency} {_NAMES[state.limit]}"
    return f"{int(state.amount):,} {_NAMES[state.limit]}"
