"""Table of a replica's life: how many there are of which revision, and what happens to each slot.

`docs/explanation/replica-lifecycle.md` explains it, and a test compares both. The reasons to leave are in
`scheduler/departures.py`. A *slot* is a place for one replica: an existing one, or one that is placed now.
"""

from enum import Enum, StrEnum, auto
from typing import Final

import msgspec

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
