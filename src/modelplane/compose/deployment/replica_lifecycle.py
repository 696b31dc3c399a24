"""Table of a replica's life, and the plan of a deployment's slots that follows from it.

`docs/explanation/replica-lifecycle.md` explains it, and a test compares both. The reasons to leave are in
`scheduler/departures.py`. A *slot* is a place for one replica: an existing one, or one that is placed now.

An edit reaches replicas in place. A replica that does not serve is edited at once, because it has nothing to
lose. A serving one is edited while enough others serve. So a bad edit takes down as many replicas as the
limit allows, and the rest serve until it is corrected. One on a cluster that does not answer may serve or
not: it is neither edited nor counted on. While a canary runs, no more replicas have the new revision than its
step needs.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, StrEnum, auto
from typing import Final, TypeAlias

import msgspec

from modelplane.api import labels
from modelplane.scheduler import Cause, ReplicaRole


class Runs(StrEnum):
    """Revision that a replica runs."""

    NEW = "New"
    """The deployment's template."""
    STABLE = "Stable"
    """The template that a canary is compared with."""
    OTHER = "Other"
    """One that an edit left behind which was cut short."""


class Count(Enum):
    """Number of replicas of the new revision."""

    ALL = auto()
    STEP = auto()
    """As many as the step of the canary needs; the rest has the stable revision."""
    NONE = auto()
    """None in addition to those that exist; the rest has the stable revision."""


class Share(Enum):
    """Part of the requests that the replicas of the new revision get together."""

    EQUAL = auto()
    """Each as much as every other replica."""
    WEIGHT = auto()
    """The weight of the canary's step."""
    NOTHING = auto()
    """They are withdrawn."""


class PhaseRow(msgspec.Struct, frozen=True):
    """Number and share of the replicas of the new revision in a phase."""

    title: str
    new: Count
    share: Share


class Phase(Enum):
    """Phase of a rollout."""

    ROLLOUT = PhaseRow("No canary, or promoted", Count.ALL, Share.EQUAL)
    RUNNING = PhaseRow("Canary running", Count.STEP, Share.WEIGHT)
    REFUSED = PhaseRow("Canary refused", Count.NONE, Share.WEIGHT)
    ABORTED = PhaseRow("Canary aborted", Count.NONE, Share.NOTHING)

    @property
    def has_stable(self) -> bool:
        """Return True while replicas keep the template that the new one is compared with."""
        return self.value.new is not Count.ALL


class Standing(Enum):
    """State of a slot: due, held or to be emptied."""

    GOES = auto()
    """Its replica has to go."""
    HOLDS = auto()
    """Its replica is left as it is: until it is replaced, or until its turn in a rollout comes."""
    IS_DUE = auto()
    """It gets the template of its revision now, if it does not have it yet."""


class Action(StrEnum):
    """Action at a slot."""

    CREATE = "Create"
    WRITE = "Write"
    KEEP = "Keep"
    RETURN = "Return"
    WITHDRAW = "Withdraw"
    DELETE = "Delete"


ACTIONS: Final = {
    (Standing.IS_DUE, True): Action.WRITE,  # a replica exists
    (Standing.IS_DUE, False): Action.CREATE,
    (Standing.HOLDS, True): Action.RETURN,  # it was told to withdraw, and stays after all
    (Standing.HOLDS, False): Action.KEEP,
    (Standing.GOES, True): Action.WITHDRAW,  # it may have an endpoint
    (Standing.GOES, False): Action.DELETE,
}
"""Action by what is due at a slot, and by what the comment says."""


class Slot(msgspec.Struct, frozen=True):
    """A place for one replica of a deployment: what runs there, how it serves, and what is asked of it."""

    key: str
    role: ReplicaRole | None
    """Its role in the placement; None if it has to go."""
    runs: Runs | None = None
    """None if no replica exists."""
    gets: Runs = Runs.NEW
    """The revision that it was placed for."""
    cause: Cause | None = None
    """The reason for which it leaves."""
    is_surge: bool = False
    is_same: bool = False
    """True if the replica has what its template makes of it."""
    serves: bool = False
    is_updating: bool = False
    """True if it serves, and its cluster has not applied the last edit yet."""
    is_seen: bool = True
    """False if its cluster does not answer, so that it may serve or not."""
    is_draining: bool = False
    """True if it was told to withdraw its endpoint."""
    has_endpoint: bool = False
    """False if it reported that it has no endpoint any more."""
    share: str | None = None
    """Its share of a canary as it is written; None if it never had one."""

    @property
    def exists(self) -> bool:
        """Return True if there is a replica."""
        return self.runs is not None

    @property
    def stays(self) -> bool:
        """Return True if the replica is one of those that there are to be."""
        return self.role not in (None, ReplicaRole.LEAVES)

    @property
    def is_new(self) -> bool:
        """Return True if it has the new revision, or is placed with it."""
        return (self.runs or self.gets) is Runs.NEW

    @property
    def serves_until_replaced(self) -> bool:
        """Return True if a replica leaves, and gets requests until then."""
        gets_none = self.cause in (Cause.REGION, Cause.LOST)
        return self.role is ReplicaRole.LEAVES and self.serves and not gets_none


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
