"""The scheduler's result for one deployment: assignments, dropped replicas and the diagnosis.

An existing replica is in exactly one of `assignments` and `dropped`.
"""

import msgspec

from modelplane.scheduler.diagnosis import Diagnosis
from modelplane.scheduler.placement.cost import Cost
from modelplane.scheduler.types import PlacedEngine, Replica


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """One replica on one cluster.

    `replica` is the existing object's name, empty for a new one. `retained`: it exists. `leaving`: it
    exists, the deployment no longer fits there, and it stays as it is (its `engines` are those observed)
    until a replacement is ready. `waits`: it leaves when a drain has room for it. `reason` says why an
    existing replica stays or has to go. `cost` is None where no pool of the fleet has a price.
    """

    cluster: str
    index: int
    engines: tuple[PlacedEngine, ...]
    replica: str = ""
    retained: bool = False
    leaving: bool = False
    waits: bool = False
    reason: str = ""
    cost: Cost | None = None
    stable: bool = False
    """True if it is new and gets the template that a canary is compared with."""
    held: bool = False
    """True if it stays as it is (its `engines` are those observed): the template does not reach it yet."""
    surge: bool = False
    """True if it is in addition to the replicas that the deployment asks for, during a rollout."""
    spot_pools: tuple[str, ...] = ()
    """Its pools that are spot."""


class Dropped(msgspec.Struct, frozen=True):
    """An existing replica (by object name) that is not kept, where it was, and the positive reason."""

    replica: str
    cluster: str
    index: int
    reason: str


class Placement(msgspec.Struct, frozen=True):
    """Assignments in order of cluster, index and name; dropped replicas; the diagnosis; the currency."""

    assignments: tuple[Assignment, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    diagnosis: Diagnosis = msgspec.field(default_factory=Diagnosis)
    currency: str = ""
    displaces: tuple[Replica, ...] = ()
    """Replicas of lower priority that are to leave for a missing one, and do not leave yet."""
    surge_problem: str = ""
    """The reason for which fewer surge replicas are placed than asked for; else empty."""
    stable_problem: str = ""
    """The reason for which replicas with the stable template are not placed, with the remedy; else empty."""

    @property
    def price(self) -> int:
        """Price of all replicas for an hour, in billionths, those included that wait for a replacement."""
        return sum(assignment.cost.price for assignment in self.assignments if assignment.cost)

    @property
    def unpriced(self) -> int:
        """Replicas that are not in the price, because one is not known."""
        return sum(bool(assignment.cost and assignment.cost.unpriced) for assignment in self.assignments)
