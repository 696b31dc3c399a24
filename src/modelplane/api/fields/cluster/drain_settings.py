"""Cordon and drain: taints that keep new replicas away, and how a drain moves the existing ones."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

from modelplane.api import labels
from modelplane.api.meta import Model
from modelplane.api.schema.fields import LABEL_VALUE, about


class Cordon(StrEnum):
    """Degrees to which a cluster or a pool is closed. The values are used in messages."""

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
    """A taint of one pool. Tolerations don't apply to it."""

    pool: Annotated[str, about("Name of the node pool.", min_length=1, max_length=40, pattern=LABEL_VALUE)]
    key: Annotated[
        PoolTaintKey,
        about(
            f"Key of the taint. {labels.UNSCHEDULABLE}: no new replicas are placed on the pool. "
            f"{labels.DRAIN}: existing replicas are also moved to other pools."
        ),
    ]


class DrainSettings(Model):
    """Limits on how many replicas move at a time while the cluster or a pool is drained."""

    max_moving: Annotated[
        int, about("Maximum number of replicas on the cluster that move at a time.", ge=1, le=MOST_MOVING)
    ] = 2
    max_moving_in_fleet: Annotated[
        int,
        about(
            "Maximum number of replicas that move at a time because of drains in the whole "
            "fleet. At this number, the drain of this cluster waits.",
            ge=1,
            le=MOST_MOVING,
        ),
    ] = 5


class DrainState(StrEnum):
    """State of the replicas of one deployment on a draining cluster."""

    BLOCKED = "Blocked"
    MOVING = "Moving"
    WAITING = "Waiting"


class DrainedDeployment(Model):
    """A ModelDeployment with replicas that still have to move."""

    namespace: Annotated[str, about("Namespace of the ModelDeployment.")]
    name: Annotated[str, about("Name of the ModelDeployment.")]
    left: Annotated[int, about("Number of replicas that remain on the cluster or pool.", ge=0)]
    state: Annotated[
        DrainState,
        about(
            "State of the replicas. Blocked: they don't fit anywhere else. Moving: some of them "
            "are being replaced. Waiting: other replicas move first."
        ),
    ]
    message: Annotated[str, about("Why the replicas don't move yet.", max_length=1024)] = ""


class DrainStatus(Model):
    """Progress of a drain."""

    left: Annotated[int, about("Number of replicas that remain on the cluster or pool.", ge=0)]
    moving: Annotated[int, about("Number of replicas that are being replaced or removed.", ge=0)]
    blocked: Annotated[int, about("Number of replicas that don't fit anywhere else.", ge=0)]
    deployments: Annotated[
        tuple[DrainedDeployment, ...],
        about(
            "ModelDeployments with remaining replicas, blocked ones first. At most 16.",
            max_length=16,
            keys=("namespace", "name"),
        ),
    ] = ()
