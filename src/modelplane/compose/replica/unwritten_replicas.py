"""Replicas of which nothing is on their cluster, and nothing can be written there.

They hold no devices against other deployments, because nobody may ever label their namespace.
"""

from collections.abc import Mapping
from typing import Any, Final

from modelplane.api.conditions.reasons import ModelReplicaCondition as Type
from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.compose.conditions import SYNCED
from modelplane.compose.readiness import condition_of

_ALWAYS: Final = "0"
NEVER: Final = "1"
"""A text that sorts before every time, and after ``_ALWAYS``."""


def since(found: Mapping[str, Any]) -> str:
    """Return the time before which a replica must be stuck to hold nothing; empty if it holds its devices.

    It holds nothing if it is known that no engine of it is on its cluster, and that none can be written
    there: the namespace is not for it, or each attempt has failed for as long as any start takes.
    """
    accepted, ready = condition_of(found, Type.MODEL_ACCEPTED), condition_of(found, Type.MODEL_READY)
    if ready.get("reason") != Reason.WAITING_FOR_MODEL or ready.get("status") != "False":
        return ""
    if accepted.get("reason") in {Reason.NAMESPACE_NOT_LABELED, Reason.NAMESPACE_TERMINATING}:
        return _ALWAYS
    is_failing = condition_of(found, SYNCED).get("status") == "False"
    is_refused = is_failing and accepted.get("reason") == Reason.DEPLOYING
    return str(found["metadata"].get("creationTimestamp", "")) if is_refused else ""
