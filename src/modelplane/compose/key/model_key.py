"""A ModelKey composes nothing: the gateway reads it. Its conditions compare it with the namespace's grant."""

from typing import Any

from modelplane.api.conditions.reasons import ModelKeyCondition as Type
from modelplane.api.conditions.reasons import ModelKeyReason as Reason
from modelplane.api.fields.requests.regions import format_regions
from modelplane.api.inference_gateway import DEFAULT_NAME, InferenceGateway, KeyGrant
from modelplane.api.listing import listing
from modelplane.api.model_key import ModelKey
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Blocked, Composition, Requirement
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.key import authentication, key_budgets, rate_limits
from modelplane.compose.key.key_facts import KeyRequest
from modelplane.gateway.module_files.key_rights import grant_of, list_not_granted, list_services


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
    enforced = authentication.enforced(request, gateway)
    is_ready = granted.holds and enforced.reason != Reason.NOT_IN_FORCE
    grant = grant_of(grants, request.owner.metadata.namespace)
    of_grant = grant.budget if grant else None
    budget = key_budgets.within_budget(request.owner.spec.budget, of_grant, request.facts.budgets)
    return Composition(
        status={**key_budgets.status(request.facts.budgets), **_hashes(request)},
        conditions=(
            granted,
            enforced,
            *((budget,) if budget else ()),
            *rate_limits.limited_globally(request.owner, grant, gateway),
        ),
        ready=is_ready,
    )


def _hashes(request: KeyRequest) -> dict[str, Any]:
    """Return the status of the hashes: the gateway decides by it which of several keys has a hash."""
    known = {each.sha256: each for each in request.owner.status.hashes}
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


def _granted(key: ModelKey, grants: tuple[KeyGrant, ...]) -> Condition:
    namespace = key.metadata.namespace
    grant = grant_of(grants, namespace)
    if grant is None:
        message = (
            f'InferenceGateway "{DEFAULT_NAME}" grants nothing to namespace "{namespace}", so the key is not '
            "valid: ask your platform team to add the namespace to spec.keyGrants"
        )
        return false(Type.ACCEPTED, Reason.NOT_GRANTED, message)
    asked = list_services(key.spec.services, namespace)
    granted = list_services(grant.services, namespace)
    if missing := list_not_granted(asked, granted):
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
