"""Cordon and drain: taints that keep new replicas away, and how a drain moves the existing ones."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

from modelplane.api import labels
from modelplane.api.meta import Model
from modelplane.api.schema.fields import LABEL_VALUE, about


class Cordon(StrEnum):
    """Degree to which a cluster or a pool is closed; the values are words of sentences."""

    NONE = ""
    CORDONED = "cordoned"
    """New replicas are kept away."""
    DRAINING = "draining"
    """New replicas are kept away, and the existing ones are replaced elsewhere."""


CORDONS: Final = {labels.UNSCHEDULABLE: Cordon.CORDONED, labels.DRAIN: Cordon.DRAINING}
"""The reserved keys of taints, which no toleration covers."""


_ORDER: Final = tuple(Cordon)


def find_strongest(cordons: Iterable[Cordon]) -> Cordon:
    """Return the one that closes the most."""
    return max(cordons, key=_ORDER.index, default=Cordon.NONE)


MOST_MOVING: Final = 1000
"""Largest number of replicas that drains may move at a time."""


class TaintEffect(StrEnum):
    """Effect of a taint on deployments that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


class PoolTaintKey(StrEnum):
    """Keys of taints of pools."""

    UNSCHEDULABLE = labels.UNSCHEDULABLE
    DRAIN = labels.DRAIN


class PoolTaint(Model):
    """A taint of one pool, which no toleration covers."""

    pool: Annotated[str, about("Name of the node pool.", min_length=1, max_length=40, pattern=LABEL_VALUE)]
    key: Annotated[
        PoolTaintKey,
        about(
            f"{labels.UNSCHEDULABLE} keeps new replicas away. {labels.DRAIN} also has the existing ones "
            "replaced elsewhere."
        ),
    ]


class DrainSettings(Model):
    """Limits of the replicas that a drain of the cluster, or of its pools, moves at a time."""

    max_moving: Annotated[
        int, about("Maximum number of replicas of the cluster that move at a time.", ge=1, le=MOST_MOVING)
    ] = 2
    max_moving_in_fleet: Annotated[
        int,
        about(
            "The cluster's drain moves no further replica while so many of the fleet move because of drains.",
            ge=1,
            le=MOST_MOVING,
        ),
    ] = 5


class DrainState(StrEnum):
    """State of a deployment's replicas on a draining cluster."""

    BLOCKED = "Blocked"
    MOVING = "Moving"
    WAITING = "Waiting"


class DrainedDeployment(Model):
    """A ModelDeployment with replicas that a drain has not moved yet."""

    namespace: Annotated[str, about("Namespace of the ModelDeployment.")]
    name: Annotated[str, about("Name of the ModelDeployment.")]
    left: Annotated[int, about("Replicas that are still there.", ge=0)]
    state: Annotated[
        DrainState,
        about(
            "Blocked: there is no other place for them. Moving: some are being replaced. Waiting: for their "
            "turn."
        ),
    ]
    message: Annotated[str, about("What it waits for.", max_length=1024)] = ""


class DrainStatus(Model):
    """Progress of a drain."""

    left: Annotated[int, about("Replicas that are still there.", ge=0)]
    moving: Annotated[int, about("Those that are being replaced or withdrawn.", ge=0)]
    blocked: Annotated[int, about("Those for which there is no other place.", ge=0)]
    deployments: Annotated[
        tuple[DrainedDeployment, ...],
        about(
            "Their ModelDeployments, the blocked ones first; at most 16.",
            max_length=16,
            keys=("namespace", "name"),
        ),
    ] = ()
