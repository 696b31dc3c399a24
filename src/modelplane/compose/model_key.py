"""A ModelKey composes nothing: the gateway reads it. Its conditions compare it with the namespace's grant."""

from typing import Any

from modelplane.api.conditions.reasons import (
    InferenceGatewayCondition,
    ModelKeyCondition as Type,
    ModelKeyReason as Reason,
)
from modelplane.api.fields.requests.key_limits import RateLimitType
from modelplane.api.fields.requests.pricing import Budget
from modelplane.api.fields.requests.regions import format_regions
from modelplane.api.inference_gateway import DEFAULT_NAME, Authentication, InferenceGateway, KeyGrant
from modelplane.api.listing import listing
from modelplane.api.model_key import BudgetLimit, BudgetScope, ModelKey
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Blocked, Composition, Requirement
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.facts import KeyRequest
from modelplane.compose.gateway import fleet_gateway
from modelplane.gateway.module_files.key_rights import (
    grant_of,
    is_counted_by_service,
    list_not_granted,
    list_services,
    must_count_by_service,
)
from modelplane.gateway.usage.spent_budgets import BudgetState, KeyBudgets, find_spent

_INSTEAD = "so each gateway enforces an equal part of the limits"
_NAMES = {
    BudgetLimit.TOKENS_PER_DAY: "tokens a day",
    BudgetLimit.TOKENS_PER_MONTH: "tokens a month",
    BudgetLimit.COST_PER_DAY: "a day",
    BudgetLimit.COST_PER_MONTH: "a month",
}
IN_MONEY = (BudgetLimit.COST_PER_DAY, BudgetLimit.COST_PER_MONTH)
"""Limits in the currency of the prices."""


def requirements(_key: ModelKey) -> tuple[Requirement, ...]:
    """Return the gateway, which has the grants."""
    return (fleet_gateway.REQUIREMENT,)


def compose(request: KeyRequest) -> Composition | Blocked:
    """State whether the key is within the grant of its namespace."""
    if unknown := request.unknown(fleet_gateway.KEY):
        return Blocked(f"cannot read the {fleet_gateway.KEY}: {unknown.cause}")
    gateway: InferenceGateway | None = None
    for found in request.found(fleet_gateway.KEY):
        try:
            gateway = decode_as(InferenceGateway, found)
        except InvalidObject as error:
            return Blocked(str(error))
    grants = gateway.spec.key_grants if gateway else ()
    granted = _granted(request.owner, grants)
    enforced = _enforced(request, gateway)
    is_ready = granted.holds and enforced.reason != Reason.NOT_IN_FORCE
    grant = grant_of(grants, request.owner.metadata.namespace)
    budget = within_budget(request.owner.spec.budget, grant.budget if grant else None, request.facts.budgets)
    return Composition(
        status={**_budget_status(request.facts.budgets), **_hashes(request)},
        conditions=(
            granted,
            enforced,
            *((budget,) if budget else ()),
            *_limited_globally(request.owner, grant, gateway),
        ),
        ready=is_ready,
    )


def within_budget(own: Budget | None, granted: Budget | None, found: KeyBudgets | None) -> Condition | None:
    """State whether a key may go on; None for one without a budget, and where nothing counts."""
    if found is None or (own is None and granted is None):
        return None
    if found.problem:
        message = f"requests continue to be refused or served as before: {found.problem}"
        return false(Type.WITHIN_BUDGET, Reason.NOT_MEASURED, message)
    if last := find_spent(found.states):
        whose = "the key" if last.scope is BudgetScope.KEY else "all keys of the namespace"
        limit = amount_of_limit(last, found.currency)
        message = f"the budget of {whose}, {limit}, is spent: requests are refused until {last.opens}"
        return false(Type.WITHIN_BUDGET, Reason.SPENT, message)
    if not found.currency and any(state.limit in IN_MONEY for state in found.states):
        message = (
            f'cost budgets have no effect: InferenceGateway "{DEFAULT_NAME}" has no '
            "spec.pricing: ask your platform team to add it"
        )
        return false(Type.WITHIN_BUDGET, Reason.NO_PRICES, message)
    return true(Type.WITHIN_BUDGET, Reason.AVAILABLE, "budgets are available for the key and the namespace")


def amount_of_limit(state: BudgetState, currency: str) -> str:
    """Return a limit in words."""
    if state.limit in IN_MONEY:
        return f"{state.amount} {currency} {_NAMES[state.limit]}"
    return f"{int(state.amount):,} {_NAMES[state.limit]}"


def _granted(key: ModelKey, grants: tuple[KeyGrant, ...]) -> Condition:
    namespace = key.metadata.namespace
    grant = grant_of(grants, namespace)
    if grant is None:
        message = (
            f'InferenceGateway "{DEFAULT_NAME}" doesn\'t grant keys to namespace "{namespace}", so the '
            "key is not valid: ask your platform team to add the namespace to spec.keyGrants"
        )
        return false(Type.ACCEPTED, Reason.NOT_GRANTED, message)
    asked = list_services(key.spec.services, namespace)
    if missing := list_not_granted(asked, list_services(grant.services, namespace)):
        message = (
            f'spec.services: {listing(missing)}: not granted to namespace "{namespace}": remove them, or ask '
            f'your platform team to add them to spec.keyGrants of InferenceGateway "{DEFAULT_NAME}"'
        )
        return false(Type.ACCEPTED, Reason.NOT_GRANTED, message)
    outside = sorted({*key.spec.regions} - {*grant.regions}) if grant.regions else []
    if outside:
        message = (
            f'spec.regions: {format_regions(outside)}: not granted to namespace "{namespace}": '
            "remove them, or ask your platform team to add them to spec.keyGrants of InferenceGateway "
            f'"{DEFAULT_NAME}"'
        )
        return false(Type.ACCEPTED, Reason.NOT_GRANTED, message)
    return true(Type.ACCEPTED, Reason.WITHIN_GRANT, f'within the grant of namespace "{namespace}"')


def _enforced(request: KeyRequest, gateway: InferenceGateway | None) -> Condition:
    """State whether the gateway asks for keys, and has this one."""
    if gateway is None:
        message = f'InferenceGateway "{DEFAULT_NAME}" does not exist, so a running gateway keeps its settings'
        return false(Type.AUTHENTICATED, Reason.GATEWAY_NOT_READY, message)
    if gateway.spec.authentication is not Authentication.API_KEY:
        message = "the gateway doesn't require keys: requests without a key are also served"
        return false(Type.AUTHENTICATED, Reason.GATEWAY_OPEN, message)
    said = next(
        (
            condition
            for condition in gateway.status.conditions
            if condition.type == InferenceGatewayCondition.AUTHENTICATED
        ),
        None,
    )
    if said is None or said.status != "True":
        cause = (said.message if said else "") or "the gateway does not ask for keys yet"
        return false(
            Type.AUTHENTICATED, Reason.GATEWAY_NOT_READY, f'InferenceGateway "{DEFAULT_NAME}": {cause}'
        )
    if request.facts.problem is None:
        return _not_known(request)
    if request.facts.problem:
        return false(Type.AUTHENTICATED, Reason.NOT_IN_FORCE, request.facts.problem)
    return true(Type.AUTHENTICATED, Reason.IN_FORCE, "the gateway requires keys, and this key is valid")


def _not_known(request: KeyRequest) -> Condition:
    """Return the condition of a key that the gateway may not have."""
    if request.facts.is_reported:
        return false(
            Type.AUTHENTICATED,
            Reason.CONFIGURING,
            "the gateway has not loaded the key or the last change yet",
        )
    message = (
        "the gateway requires keys; under Crossplane, it isn't reported whether the gateway has loaded "
        "this key"
    )
    return false(Type.AUTHENTICATED, Reason.NOT_REPORTED, message)


def _limited_globally(
    key: ModelKey, grant: KeyGrant | None, gateway: InferenceGateway | None
) -> tuple[Condition, ...]:
    """Return the condition of a key with global limits; none for another."""
    asks = key.spec.rate_limit_type is RateLimitType.GLOBAL
    if grant is None or gateway is None or not (asks or must_count_by_service(grant)):
        return ()
    if not is_counted_by_service(grant, asks):
        message = (
            f'the grant of namespace "{key.metadata.namespace}" allows only rateLimitType Local, {_INSTEAD}: '
            "remove spec.rateLimitType, or ask your platform team"
        )
        return (false(Type.SETTINGS_SUPPORTED, Reason.TYPE_NOT_GRANTED, message),)
    if gateway.spec.rate_limit_service is None:
        message = (
            f'InferenceGateway "{DEFAULT_NAME}" has no spec.rateLimitService, {_INSTEAD}: ask your platform '
            "team to add one"
        )
        return (false(Type.SETTINGS_SUPPORTED, Reason.NO_RATE_LIMIT_SERVICE, message),)
    service = gateway.spec.rate_limit_service
    message = f"{service.host}:{service.port} counts requests and tokens per minute for all gateways together"
    return (true(Type.SETTINGS_SUPPORTED, Reason.RATE_LIMIT_SERVICE, message),)


def _budget_status(found: KeyBudgets | None) -> dict[str, Any]:
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


def _hashes(request: KeyRequest) -> dict[str, Any]:
    """Return the status of the hashes: the gateway decides by it which of several keys has a hash."""
    known = {key.sha256: key for key in request.owner.status.hashes}
    found = []
    for sha256 in dict.fromkeys(hashed.sha256 for hashed in request.owner.spec.hashes):
        seen = known.get(sha256)
        since = seen.first_seen if seen else request.now
        if since is None:
            continue
        entry: dict[str, Any] = {"sha256": sha256, "firstSeen": f"{since:%Y-%m-%dT%H:%M:%SZ}"}
        if sha256 in request.facts.refused or (seen and seen.refused):
            entry["refused"] = True
        found.append(entry)
    return {"hashes": found} if found else {}
