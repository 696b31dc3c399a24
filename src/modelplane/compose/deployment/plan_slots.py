"""Plan of a deployment's slots: which revision each gets, its share of the requests, and what happens to it.

An edit reaches replicas in place. A replica that does not serve is edited at once, because it has nothing to
lose. A serving one is edited while enough others serve. So a bad edit takes down as many replicas as the
limit allows, and the rest serve until it is corrected. One on a cluster that does not answer may serve or
not: it is neither edited nor counted on. While a canary runs, no more replicas have the new revision than its
step needs.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec

from modelplane.api import labels
from modelplane.compose.deployment.replica_lifecycle import (
    ACTIONS,
    Action,
    Count,
    Phase,
    Runs,
    Share,
    Slot,
    Standing,
)
from modelplane.scheduler import ReplicaRole


class Policy(msgspec.Struct, frozen=True):
    """Settings of a deployment for its replicas."""

    replicas: int
    phase: Phase = Phase.ROLLOUT
    unavailable: int = 1
    """Replicas that may be unavailable because of an edit."""
    is_paused: bool = False
    step: int = 0
    """Replicas of the new revision that the step of a canary needs."""
    weight: int = 0
    """Percentage of the requests that they get."""


class SlotPlan(msgspec.Struct, frozen=True):
    """Decision about a slot."""

    key: str
    action: Action
    revision: Runs | None = None
    """The revision that the replica has afterwards; None if it goes."""
    share: str | None = None
    """Its share of a canary; None to leave out."""
    is_withdrawn: bool = False
    """True if it stays, and gets no requests."""
    is_updated: bool = False
    """True if it has its template, and its cluster has applied that."""
    waits: bool = False
    """True if its turn in a rollout has not come."""


Plans: TypeAlias = Mapping[str, SlotPlan]
"""Plan of each slot, by key."""


def plan_slots(slots: Sequence[Slot], policy: Policy) -> tuple[SlotPlan, ...]:
    """Decide what happens to each slot."""
    waiting = _find_waiting(slots, policy)
    if policy.phase.has_stable:
        waiting = _limit_to_step(slots, policy, waiting)
    return tuple(_plan(slot, policy, waits=slot.key in waiting) for slot in slots)


def _plan(slot: Slot, policy: Policy, *, waits: bool) -> SlotPlan:
    if slot.role is None:
        return SlotPlan(slot.key, ACTIONS[Standing.GOES, slot.has_endpoint])
    if slot.role is ReplicaRole.LEAVES or waits:
        # One that was withdrawn because its canary was aborted stays withdrawn.
        returns = slot.is_draining and slot.share != labels.WITHDRAWN
        return SlotPlan(
            slot.key, ACTIONS[Standing.HOLDS, returns], slot.runs, is_updated=_is_updated(slot), waits=waits
        )
    is_stable = not slot.exists and slot.gets is Runs.STABLE
    return SlotPlan(
        slot.key,
        ACTIONS[Standing.IS_DUE, slot.exists],
        Runs.STABLE if is_stable else Runs.NEW,
        _find_share(slot, policy),
        is_withdrawn=policy.phase.value.share is Share.NOTHING and not is_stable,
        is_updated=_is_updated(slot),
    )


def _is_updated(slot: Slot) -> bool:
    return slot.stays and slot.is_same and not slot.is_updating


def _find_waiting(slots: Sequence[Slot], policy: Policy) -> frozenset[str]:
    """Return the replicas that an edit does not reach yet, by key."""
    staying = [slot for slot in slots if slot.stays]
    behind = [slot for slot in staying if slot.exists and not slot.is_same]
    if policy.is_paused:
        return frozenset(slot.key for slot in behind)
    stale = [slot for slot in behind if slot.serves and not slot.is_updating]
    # Replicas of canaries that were cut short come first.
    stale.sort(key=lambda slot: (slot.role is ReplicaRole.PINNED, slot.runs is not Runs.OTHER, slot.key))
    regular = sum(not slot.is_surge for slot in staying)
    least = max(0, regular + _count_missing(slots, policy) - policy.unavailable)
    serving = sum(slot.serves and not slot.is_updating for slot in staying)
    later = stale[max(0, serving - least) :]
    return frozenset(slot.key for slot in (*later, *(slot for slot in behind if not slot.is_seen)))


def _count_missing(slots: Sequence[Slot], policy: Policy) -> int:
    """Return how many replicas leave or go, have no replacement yet, and do not serve or are being updated.

    One that is being updated serves until its cluster has applied the edit, so it is not counted on.
    """
    regular = sum(slot.stays and not slot.is_surge for slot in slots)
    leaving = min(sum(not slot.stays for slot in slots), policy.replicas - regular)
    serving = sum(slot.serves_until_replaced and not slot.is_updating for slot in slots)
    return max(0, leaving - serving)


def _limit_to_step(slots: Sequence[Slot], policy: Policy, waiting: Collection[str]) -> frozenset[str]:
    """Return the replicas that wait, if no more are updated than the step of a canary needs.

    Those of canaries that were cut short are updated first, and then those that do not serve.
    """
    staying = [slot for slot in slots if slot.stays]
    older = [slot for slot in staying if slot.exists and not slot.is_new]
    needed = policy.step if policy.phase.value.new is Count.STEP else 0
    room = max(0, needed - sum(slot.is_new for slot in staying))
    may = [slot for slot in older if slot.key not in waiting and slot.role is not ReplicaRole.PINNED]
    may.sort(key=lambda slot: (slot.runs is Runs.STABLE, slot.serves, slot.key))
    updated = {slot.key for slot in may[:room]}
    # One of an aborted canary is written again, so that it stays withdrawn.
    is_withdrawing = policy.phase.value.share is Share.NOTHING
    new = {slot.key for slot in staying if slot.is_new and slot.key in waiting}
    return frozenset({slot.key for slot in older} - updated) | (frozenset() if is_withdrawing else new)


def _find_share(slot: Slot, policy: Policy) -> str | None:
    """Return the share of a replica that is written; None if it never had one."""
    share = {Share.EQUAL: "", Share.WEIGHT: str(policy.weight), Share.NOTHING: labels.WITHDRAWN}[
        policy.phase.value.share
    ]
    if not slot.exists and slot.gets is Runs.STABLE:
        share = ""
    # The pods of a withdrawn replica do not have its next template yet.
    if slot.share == labels.WITHDRAWN and (slot.is_updating or not slot.serves):
        share = labels.WITHDRAWN
    # Written as empty too, because an annotation that is left out stays.
    return share if share or slot.share is not None else None
