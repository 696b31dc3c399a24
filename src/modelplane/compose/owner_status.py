"""Status of an owner: its conditions in wire form, and whether a write is needed."""

from collections.abc import Iterable, Mapping
from typing import Any

from modelplane.api.conditions.reasons import (
    FALSE_IS_USUAL,
    ModelReplicaReason,
    ReadyReason,
    SyncedReason,
    is_warning,
)
from modelplane.api.listing import listing
from modelplane.api.meta import Object
from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Composition, Desired
from modelplane.compose.conditions import READY, SYNCED, Condition, false, true

LONGEST_MESSAGE = 32768
"""Length limit of a condition's message; a longer one would block the whole status."""


def derive_ready(
    composition: Composition, observed: Mapping[str, Object], before: Iterable[Mapping[str, Any]]
) -> Condition:
    """Return the Ready condition: as the composition decides, or from the readiness of every child.

    Its reason and message are those of the first condition that keeps the object from being ready.
    """
    waiting = [
        child.key
        for child in composition.children
        if isinstance(child, Desired) and not (child.key in observed and child.ready(observed[child.key]))
    ]
    is_ready = not waiting if composition.ready is None else composition.ready
    cause = find_cause(composition.conditions)
    if is_ready:
        # What is not observed may have changed, although requests are still sent to it.
        if cause is not None and cause.reason == ModelReplicaReason.CLUSTER_UNREACHABLE:
            return true(READY, cause.reason, cause.message)
        return true(READY, ReadyReason.AVAILABLE)
    was_ready = any(
        old["type"] == READY and (old["status"] == "True" or old["reason"] == ReadyReason.UNAVAILABLE)
        for old in before
    )
    if cause is not None:
        return false(READY, cause.reason, cause.message)
    message = f"waiting for {listing(waiting)}" if waiting else ""
    return false(READY, ReadyReason.UNAVAILABLE if was_ready else ReadyReason.CREATING, message)


def find_cause(conditions: Iterable[Condition]) -> Condition | None:
    """Return the first condition that keeps an object from being ready; None if all hold."""
    return next((own for own in conditions if not own.holds and own.type not in FALSE_IS_USUAL), None)


def derive_synced(unwritten: Rejected | None) -> Condition:
    """Return the Synced condition: true if the composition could be written."""
    if unwritten:
        return false(SYNCED, SyncedReason.RECONCILE_ERROR, unwritten.message)
    return true(SYNCED, SyncedReason.RECONCILE_SUCCESS)


def encode_conditions(
    conditions: Iterable[Condition], before: Iterable[Mapping[str, Any]], generation: int, now: str
) -> list[dict[str, Any]]:
    """Return conditions in wire form; one with an unchanged status keeps its transition time."""
    known = {old["type"]: old for old in before}
    wire = []
    for condition in conditions:
        old = known.get(condition.type, {})
        written: dict[str, Any] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "lastTransitionTime": old["lastTransitionTime"] if old.get("status") == condition.status else now,
            "observedGeneration": generation,
        }
        if condition.message:
            written["message"] = condition.message[:LONGEST_MESSAGE]
        wire.append(written)
    return wire


def list_transitions(conditions: Iterable[Condition], before: Iterable[Mapping[str, Any]]) -> list[Condition]:
    """Return the conditions whose status or reason changed.

    The first conditions of a new object do not count, unless one needs an operator: they are no change.
    """
    known = {old["type"]: (old["status"], old["reason"]) for old in before}
    return [
        own
        for own in conditions
        if known.get(own.type) != (own.status, own.reason)
        and (own.type in known or is_warning(own.type, own.reason, holds=own.holds))
    ]


def is_same(observed: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return True if a status already equals another one, in any order of conditions."""
    return _by_type(observed) == _by_type(wanted)


def _by_type(whole: Mapping[str, Any]) -> dict[str, Any]:
    conditions = {condition["type"]: condition for condition in whole.get("conditions", ())}
    return {**whole, "conditions": conditions}
