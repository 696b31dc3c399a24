"""API keys as commands make and list them: form, hash, expiry, ModelKey, rotation, and row in a list."""

import datetime as dt
import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from modelplane.api.conditions.reasons import ModelKeyCondition, ModelKeyReason
from modelplane.api.fields.requests.pricing import Budget
from modelplane.api.kinds import kind_of
from modelplane.api.meta import Object, get_full_name
from modelplane.api.model_key import MAX_HASHES, BudgetScope, KeyHash, ModelKey, UsedBudget
from modelplane.api.rejected import Rejected
from modelplane.api.report_tables import Columns
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.gateway.module_files.key_rights import list_services
from modelplane.gateway.module_files.keys import parse_seconds
from modelplane.kube.timestamps import format_at

PREFIX = "mpk_"
"""Beginning of every key, by which scanners recognize a leaked one: mpk_ and 48 hexadecimal digits."""

_BYTES = 24


def make_key() -> str:
    """Return a new key, of 192 random bits."""
    return PREFIX + secrets.token_hex(_BYTES)


def hash_key(key: str, expires: dt.datetime | None) -> KeyHash:
    """Return the entry of a key in its ModelKey."""
    return KeyHash(sha256=hashlib.sha256(key.encode()).hexdigest(), expires=expires)


def is_valid(hash_: KeyHash, now: dt.datetime) -> bool:
    """Return True if a key has not expired."""
    seconds = parse_seconds(hash_.expires)
    return seconds is None or seconds > now.timestamp()


def rotate_hashes(
    hashes: Sequence[KeyHash], key: str, now: dt.datetime, overlap: dt.timedelta, expires: dt.datetime | None
) -> tuple[KeyHash, ...] | Rejected:
    """Return the hashes after a rotation, the new one last; the others expire after the overlap.

    Without ``expires``, the new key has the end of the one before it.
    """
    before = hashes[-1]
    if expires is None and not is_valid(before, now):
        return Rejected(
            subject="the key", detail="has expired", remedy="set the new key's lifetime with --expires"
        )
    end = now + overlap
    old = [KeyHash(sha256=hash_.sha256, expires=_shorten_life(hash_, end)) for hash_ in hashes]
    kept = [hash_ for hash_ in old if is_valid(hash_, now)]
    if len(kept) >= MAX_HASHES:
        return Rejected(
            detail=f"{len(kept)} previous keys are still valid",
            remedy="rotate again later, or revoke the previous keys now with --overlap 0s",
        )
    return (*kept, hash_key(key, expires or before.expires))


def _shorten_life(hash_: KeyHash, end: dt.datetime) -> dt.datetime:
    seconds = parse_seconds(hash_.expires)
    return end if seconds is None or seconds > end.timestamp() else dt.datetime.fromtimestamp(seconds, dt.UTC)


def encode_hash(hash_: KeyHash) -> dict[str, str]:
    """Return a hash as manifests have it, with whole seconds in UTC."""
    seconds = parse_seconds(hash_.expires)
    return {"sha256": hash_.sha256} | ({} if seconds is None else {"expires": format_at(seconds)})


_LIMITS: Final = {
    "requests_per_minute": "requestsPerMinute",
    "tokens_per_minute": "tokensPerMinute",
    "streams": "streams",
    "max_body_bytes": "maxBodyBytes",
}
_BUDGETS: Final = {
    "tokens_per_day": "tokensPerDay",
    "tokens_per_month": "tokensPerMonth",
    "cost_per_day": "costPerDay",
    "cost_per_month": "costPerMonth",
}


def build_model_key(
    name: str,
    namespace: str,
    hash_: KeyHash,
    *,
    services: Sequence[str] = (),
    regions: Iterable[str] = (),
    is_global: bool = False,
    limits: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the manifest of a ModelKey with one key; ``limits`` has limits and budgets, None for none."""
    spec: dict[str, Any] = {"hashes": [encode_hash(hash_)]}
    if services:
        spec["services"] = list(services)
    spec |= _rename(limits, _LIMITS)
    if sorted_regions := sorted(set(regions)):
        spec["regions"] = sorted_regions
    if is_global:
        spec["rateLimitType"] = "Global"
    if budget := _rename(limits, _BUDGETS):
        spec["budget"] = budget
    kind = kind_of(ModelKey)
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": spec}


def _rename(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the given values under their names on the wire."""
    return {wire_name: given[name] for name, wire_name in names.items() if given.get(name) is not None}


class ListedKey:
    """A ModelKey in a list, at a time."""

    def __init__(self, item: Object, now: dt.datetime) -> None:
        self.namespace, self.name = get_full_name(item)
        self.state, self.keys, self.expires, self.services, self.budgets = "Unreadable", "", "", "", ""
        try:
            decoded = decode_as(ModelKey, item)
        except InvalidObject:
            return
        valid = [hash_ for hash_ in decoded.spec.hashes if is_valid(hash_, now)]
        self.state = _describe_state(decoded, has_valid=bool(valid))
        self.keys = str(len(valid))
        self.expires = encode_hash(decoded.spec.hashes[-1]).get("expires", "never")
        self.services = ", ".join(list_services(decoded.spec.services, self.namespace))
        used = ", ".join(map(_describe_use, decoded.status.budgets))
        self.budgets = used or _describe_budget(decoded.spec.budget)


KEYS: Final = Columns[ListedKey](
    ("NAMESPACE", lambda key: key.namespace),
    ("NAME", lambda key: key.name),
    ("STATE", lambda key: key.state),
    ("KEYS", lambda key: key.keys),
    ("EXPIRES", lambda key: key.expires),
    ("SERVICES", lambda key: key.services),
    ("BUDGETS", lambda key: key.budgets),
)


def _describe_budget(budget: Budget | None) -> str:
    """Return the limits of a budget whose use is not reported, as under Crossplane."""
    limits = [
        f"{amount} {wire_name}"
        for limit, wire_name in _BUDGETS.items()
        if (amount := getattr(budget, limit, None)) is not None
    ]
    return f"{', '.join(limits)} (use not reported)" if limits else "none"


def _describe_use(budget: UsedBudget) -> str:
    of_all = " of the namespace" if budget.of is BudgetScope.NAMESPACE else ""
    return f"{budget.used_percent} % of {budget.amount} {budget.limit}{of_all}"


def _describe_state(key: ModelKey, *, has_valid: bool) -> str:
    if key.spec.blocked:
        return "Blocked"
    if not has_valid:
        return "Expired"
    reasons = {condition.type: condition.reason for condition in reversed(key.status.conditions)}
    within = reasons.get(ModelKeyCondition.WITHIN_BUDGET)
    if within == ModelKeyReason.SPENT:
        return str(within)
    return str(reasons.get(ModelKeyCondition.ACCEPTED, "Pending"))
