"""The scheduler's result for one deployment: assignments, dropped replicas and the diagnosis.

An existing replica is in exactly one of `assignments` and `dropped`.
"""

import msgspec

from modelplane.scheduler.departures import Cause, Role
from modelplane.scheduler.diagnosis import Diagnosis
from modelplane.scheduler.placement.cost import Cost
from modelplane.scheduler.types import PlacedEngine, Replica


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """One replica on one cluster, and its role.

    `replica` is the existing object's name, empty for a new one. `engines` are those observed if it leaves
    or is pinned. `reason` says why an existing replica stays or has to go, and `cause` is the row of the
    table for one that leaves, now or when its turn comes. `cost` is None where no pool of the fleet has a
    price.
    """

    cluster: str
    index: int
    engines: tuple[PlacedEngine, ...]
    role: Role = Role.NEW
    replica: str = ""
    reason: str = ""
    cause: Cause | None = None
    cost: Cost | None = None
    demand: int = 0
    """Position of the demand that a new one is for."""
    surge: bool = False
    """True if it is in addition to the replicas that the deployment asks for, during a rollout."""
    spot_pools: tuple[str, ...] = ()
    """Its pools that are spot."""

    @property
    def key(self) -> tuple[str, int]:
        """Its cluster, and its index there."""
        return self.cluster, self.index

    @property
    def retained(self) -> bool:
        """True if it exists."""
        return self.role is not Role.NEW

    @property
    def leaving(self) -> bool:
        """True if it stays as it is until a replacement serves."""
        return self.role is Role.LEAVES

    @property
    def waits(self) -> bool:
        """True if it leaves when its turn comes."""
        return self.cause is not None and not self.leaving


class Dropped(msgspec.Struct, frozen=True):
    """An existing replica (by object name) that is not kept, where it was, and the positive reason."""

    replica: str
    cluster: str
    index: int
    reason: str
    cause: Cause


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
    blocked: int = 0
    """Missing replicas of a demand whose template is not known."""

    @property
    def price(self) -> int:
        """Price of all replicas for an hour, in billionths, those included that wait for a replacement."""
        return sum(assignment.cost.price for assignment in self.assignments if assignment.cost)

    @property
    def unpriced(self) -> int:
        """Replicas that are not in the price, because one is not known."""
        return sum(bool(assignment.cost and assignment.cost.unpriced) for assignment in self.assignments)
