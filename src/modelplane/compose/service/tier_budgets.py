"""Condition of a ModelService with budgets: which of its tiers are closed, and until when."""

from modelplane.api.conditions.reasons import ModelServiceCondition
from modelplane.api.conditions.reasons import ModelServiceReason as Reason
from modelplane.api.inference_gateway import DEFAULT_NAME
from modelplane.api.listing import listing
from modelplane.api.model_service import ModelService
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.key.key_budgets import IN_MONEY, amount_of_limit
from modelplane.gateway.usage.spent_budgets import TierBudgets

_TYPE = ModelServiceCondition.WITHIN_BUDGET

SPENT = "a budget of spec.endpoints is spent: see the condition WithinBudget of the ModelService"


def closed(service: ModelService, found: TierBudgets | None) -> frozenset[int]:
    """Return the entries of a service whose endpoints get no requests.

    Until it is known what they have used, all entries with a budget stay closed if one was.
    """
    if found is None:
        return frozenset()
    if not found.problem:
        return frozenset(found.spent)
    said = next((condition for condition in service.status.conditions if condition.type == _TYPE), None)
    if said is None or said.reason != Reason.SPENT:
        return frozenset()
    return frozenset(index for index, entry in enumerate(service.spec.endpoints) if entry.budget)


def within_budget(service: ModelService, found: TierBudgets | None, *, are_counted: bool) -> Condition | None:
    """State whether a tier is closed; None without a budget.

    ``are_counted`` is True if another process counts the requests, which does not tell this one.
    """
    if not any(entry.budget for entry in service.spec.endpoints):
        return None
    if found is None:
        unknown = "the gateway applies budgets, and does not report what is used"
        without = "budgets have no effect: nothing counts the requests"
        return false(_TYPE, Reason.NOT_MEASURED, unknown if are_counted else without)
    if found.problem:
        kept = Reason.SPENT if closed(service, found) else Reason.NOT_MEASURED
        return false(_TYPE, kept, f"tiers stay open or closed as before: {found.problem}")
    if spent := found.spent:
        named = listing(
            f"spec.endpoints[{index}], {amount_of_limit(state, found.currency)}, until {state.opens}"
            for index, state in sorted(spent.items())
        )
        return false(_TYPE, Reason.SPENT, f"endpoints get no requests, because a budget is spent: {named}")
    in_money = any(state.limit in IN_MONEY for states in found.states.values() for state in states)
    if in_money and not found.currency:
        message = f'budgets in money have no effect: InferenceGateway "{DEFAULT_NAME}" has no spec.pricing'
        return false(_TYPE, Reason.NO_PRICES, message)
    return true(_TYPE, Reason.AVAILABLE, "no budget of a tier is spent")
