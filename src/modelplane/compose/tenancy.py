"""Tenancy: an object in a reserved namespace gets nothing new, and nothing of it is deleted."""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from modelplane.api.conditions.reasons import AdmittedReason, CommonCondition
from modelplane.api.names import check_reserved
from modelplane.compose.composition import Blocked, Composition, Request, keep_all
from modelplane.compose.conditions import Condition, false

_COMMON: Final = frozenset(map(str, CommonCondition))


def admitted(request: Request[Any, Any], composed: Composition | Blocked) -> Composition | Blocked:
    """Return a composition, or a refusal if the owner's namespace is reserved.

    A refusal keeps every child, every guard and the status, and has a condition with the cause.
    """
    owner = request.owner
    rejected = check_reserved(owner.metadata.namespace)
    if rejected is None or isinstance(composed, Blocked):
        return composed
    status: dict[str, Any] = msgspec.to_builtins(owner.status)
    status.pop("conditions", None)
    known = (
        Condition(condition.type, condition.status == "True", condition.reason, condition.message)
        for condition in owner.status.conditions
        if condition.type not in _COMMON
    )
    refusal = false(CommonCondition.ACCEPTED, AdmittedReason.RESERVED_NAMESPACE, rejected.message)
    return replace(
        composed,
        children=keep_all(request.observed),
        placeholders=(),
        status=status,
        conditions=(refusal, *known),
        ready=False,
        unsatisfied=False,
        also_watch=(),
    )
