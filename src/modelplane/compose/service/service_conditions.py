"""Conditions of a ModelService that only some have: spent budgets, standbys that serve, ignored settings."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelServiceCondition as Type, ModelServiceReason as Reason
from modelplane.api.fields.deployment.standby_settings import MOST_PREFERRED
from modelplane.api.inference_gateway import DEFAULT_NAME
from modelplane.api.listing import count_noun, in_order, listing
from modelplane.api.meta import Object
from modelplane.api.model_service import ModelService
from modelplane.compose.conditions import Condition, false, state_unless_new, true
from modelplane.compose.facts import ServiceRequest
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.model_key import IN_MONEY, amount_of_limit
from modelplane.compose.service import hold, region_rules
from modelplane.gateway.services import Selected
from modelplane.gateway.usage.spent_budgets import TierBudgets

_ATTENTION = (Reason.STANDBY_SERVES, Reason.NO_VARIANT_SERVES, Reason.PREFERRED_SERVES)


def variant_conditions(request: ServiceRequest, matched: Iterable[Selected]) -> tuple[Condition, ...]:
    """Return the condition of a service; none if no deployment that it selects is a standby for another."""
    orders = _orders(item for item in request.found(region_rules.KEY) if hold.selects(request.owner, item))
    if not orders:
        was_stated = any(
            condition.type == Type.STANDBY_ACTIVE for condition in request.owner.status.conditions
        )
        gone = false(
            Type.STANDBY_ACTIVE,
            Reason.NO_VARIANTS,
            "none of the selected deployments is a standby for another",
        )
        return (gone,) if was_stated else ()
    serving = Counter(endpoint.endpoint.metadata.labels.get(labels.DEPLOYMENT, "") for endpoint in matched)
    stated = [_condition(order, serving) for order in orders]
    # The one that needs attention first.
    stated.sort(key=lambda condition: _ATTENTION.index(condition.reason))
    message = in_order([condition.message for condition in stated], separator=". ")
    return (replace(stated[0], message=message),)


def _orders(deployments: Iterable[Object]) -> list[list[str]]:
    """Return each deployment that stands by for none of the others, with those that stand by for it."""
    preferred = {deployment["metadata"]["name"]: _preferred(deployment) for deployment in deployments}
    standbys: dict[str, list[str]] = defaultdict(list)
    for name in sorted(preferred):
        standbys[preferred[name]].append(name)
    orders = []
    for first in sorted(preferred):
        if preferred[first] not in preferred and first in standbys:
            order = [first]
            for name in order:
                order += standbys.get(name, ())
            orders.append(order)
    return orders


def _preferred(deployment: Object) -> str:
    """Return the name that a deployment stands by for; empty if there is none, or it cannot be read."""
    settings = deployment["spec"].get("standbyFor")
    name = settings.get("name") if isinstance(settings, Mapping) else None
    return name if isinstance(name, str) else ""


def _condition(order: list[str], serving: Mapping[str, int]) -> Condition:
    first, *others = order
    counts = [
        f'"{name}" {count_noun(serving[name], "endpoint") if serving[name] else "none"}' for name in order
    ]
    told = f"in order of preference: {in_order(counts, MOST_PREFERRED)}"
    standby = next((name for name in others if serving[name]), "")
    if serving[first]:
        message = f'"{first}" and "{standby}" are serving; {told}' if standby else told
        return false(Type.STANDBY_ACTIVE, Reason.PREFERRED_SERVES, message)
    if standby:
        message = f'"{standby}" is serving in place of "{first}"; {told}'
        return true(Type.STANDBY_ACTIVE, Reason.STANDBY_SERVES, message)
    return false(Type.STANDBY_ACTIVE, Reason.NO_VARIANT_SERVES, f"none is serving; {told}")


def list_closed_entries(service: ModelService, found: TierBudgets | None) -> frozenset[int]:
    """Return the entries of a service whose endpoints get no requests.

    Until it is known what they have used, all entries with a budget stay closed if one was.
    """
    if found is None:
        return frozenset()
    if not found.problem:
        return frozenset(found.spent)
    said = next(
        (condition for condition in service.status.conditions if condition.type == Type.WITHIN_BUDGET), None
    )
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
        unknown = "the gateway applies budgets, but does not report usage"
        without = "budgets have no effect, because requests are not counted"
        return false(Type.WITHIN_BUDGET, Reason.NOT_MEASURED, unknown if are_counted else without)
    if found.problem:
        kept = Reason.SPENT if list_closed_entries(service, found) else Reason.NOT_MEASURED
        return false(Type.WITHIN_BUDGET, kept, f"tiers remain open or closed as before: {found.problem}")
    if spent := found.spent:
        named = listing(
            f"spec.endpoints[{index}], {amount_of_limit(state, found.currency)}, until {state.opens}"
            for index, state in sorted(spent.items())
        )
        return false(
            Type.WITHIN_BUDGET,
            Reason.SPENT,
            f"endpoints receive no requests, because a budget is spent: {named}",
        )
    in_money = any(state.limit in IN_MONEY for states in found.states.values() for state in states)
    if in_money and not found.currency:
        message = f'cost budgets have no effect: InferenceGateway "{DEFAULT_NAME}" has no spec.pricing'
        return false(Type.WITHIN_BUDGET, Reason.NO_PRICES, message)
    return true(Type.WITHIN_BUDGET, Reason.AVAILABLE, "budgets are available for all tiers")


def unsupported_settings(request: ServiceRequest) -> tuple[Condition, ...]:
    """Return the condition of a ModelService with settings that the fleet's gateway ignores."""
    backend = fleet_gateway.proxy(request.found(fleet_gateway.KEY))
    condition = true(Type.SETTINGS_SUPPORTED, Reason.SUPPORTED, "the gateway supports every setting")
    if request.owner.spec.aliases and fleet_gateway.reads_gateway_api(backend):
        message = (
            f"the gateway's backend {backend} ignores spec.aliases: remove them, or ask your platform team "
            "for the backend Envoy"
        )
        condition = false(Type.SETTINGS_SUPPORTED, Reason.UNSUPPORTED_BACKEND, message)
    return state_unless_new(condition, request.owner.status)
