"""Departures: the table of the reasons for which a replica leaves, and the roles of replicas in a placement.

`docs/explanation/replica-lifecycle.md` explains the table, and a test compares both.
"""

from enum import Enum, StrEnum

import msgspec


class Role(StrEnum):
    """Role of a replica in a placement. A reason to leave is the cause of the last one, and of one that
    leaves when its turn comes."""

    NEW = "New"
    """It is placed now."""
    STAYS = "Stays"
    """It stays in its place, and gets the template of its demand."""
    PINNED = "Pinned"
    """It stays as it is: the template of its demand does not reach it yet."""
    LEAVES = "Leaves"
    """It stays as it is until a replacement serves."""


class Departure(msgspec.Struct, frozen=True):
    """A reason to leave: who leaves, how many at a time, and whether a replacement has to serve first."""

    title: str
    who: str
    at_a_time: str
    replacement_first: bool


class Cause(Enum):
    """Reasons to leave. If several apply to a replica, the first one counts."""

    DELETED = Departure("Deleted", "A replica that someone deletes", "All", replacement_first=False)
    PREEMPTED = Departure(
        "Preempted",
        "A lower-priority replica, if a higher-priority replica can't be placed",
        "Enough to make room for one missing replica, for up to four deployments at a time",
        replacement_first=False,
    )
    NO_CLUSTER = Departure(
        "Cluster removed", "A replica whose InferenceCluster doesn't exist", "All", replacement_first=False
    )
    TAINTED = Departure(
        "Evicted by a taint",
        "A replica on a cluster with a `NoExecute` taint that the deployment doesn't tolerate",
        "All",
        replacement_first=False,
    )
    REGION = Departure(
        "Outside the regions",
        "A replica on a cluster outside the deployment's `regions`; it no longer receives requests",
        "All",
        replacement_first=True,
    )
    LOST = Departure(
        "Cluster lost",
        "A replica on a lost cluster, if the deployment sets `failover`",
        "One failover wave at a time",
        replacement_first=True,
    )
    NO_POOL = Departure(
        "Pool removed",
        "A replica in a node pool that its cluster no longer publishes",
        "All",
        replacement_first=True,
    )
    MISFIT = Departure(
        "Does not fit", "A replica whose template no longer fits the cluster", "All", replacement_first=True
    )
    YIELDS = Departure(
        "Placement conflict",
        "A replica that isn't serving yet, in capacity that was assigned to two deployments",
        "The surplus",
        replacement_first=True,
    )
    NODE_GOES = Departure(
        "Node reclaimed", "A replica on a node that will be reclaimed", "All", replacement_first=True
    )
    DRAINED = Departure(
        "Drained",
        "A replica on a draining cluster or pool",
        "Up to `maxMoving` on the cluster, and `maxMovingInFleet` in the fleet",
        replacement_first=True,
    )
    REPLACED = Departure(
        "Replaced by a canary",
        "A replica of another revision, if the new revision can't be placed elsewhere",
        "As many as the step still needs",
        replacement_first=True,
    )
    SURPLUS = Departure(
        "Scaled down",
        "A replica beyond the requested number, or a surge replica of a completed rollout",
        "The surplus",
        replacement_first=False,
    )
