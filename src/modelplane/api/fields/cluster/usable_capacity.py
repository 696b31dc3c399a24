"""Usable capacity of a pool: what is declared, lowered by what is observed in the cluster."""

import datetime as dt
from enum import StrEnum
from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import about


class CapacitySource(StrEnum):
    """Source of the capacity for new replicas."""

    DECLARED = "Declared"
    OBSERVED = "Observed"


class Loss(StrEnum):
    """Causes for which new replicas can't use a part of a pool."""

    NODE_ABSENT = "NodeAbsent"
    NODE_NOT_READY = "NodeNotReady"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_EVICTED = "NodeEvicted"
    NODE_TAINTED = "NodeTainted"
    DEVICE_ABSENT = "DeviceAbsent"
    DEVICE_TAINTED = "DeviceTainted"
    DEVICE_UNHEALTHY = "DeviceUnhealthy"
    HELD_BY_OTHERS = "HeldByOthers"
    RECOVERING = "Recovering"


NODES = "nodes"
"""Name of a term that counts nodes instead of devices."""

MAX_TERMS = 32
"""Terms of a pool, and kinds of nodes that lack devices."""


class DeviceCount(Model):
    """A number of devices of one type."""

    name: Annotated[str, about("Name of the device in the class.", max_length=63)]
    count: Annotated[int, about("Number of devices.", ge=0)]


class MissingDevices(Model):
    """Usable nodes with the same missing devices."""

    nodes: Annotated[int, about("Number of these nodes.", ge=1)]
    devices: Annotated[
        tuple[DeviceCount, ...],
        about("Devices that are missing on each of these nodes.", max_length=16, keys=("name",)),
    ] = ()


class CapacityTerm(Model):
    """A part of a pool that new replicas can't use, and the cause."""

    reason: Annotated[Loss, about("Cause of the loss.")]
    name: Annotated[
        str, about('Name of the device in the class, or "nodes" if the pool counts nodes.', max_length=63)
    ]
    count: Annotated[int, about("Number of devices or nodes.", ge=1)]
    detail: Annotated[
        str,
        about("Key of the taint, or namespace and name of the pod that uses the devices.", max_length=512),
    ] = ""


class UsableCapacity(Model):
    """The part of a pool that new replicas can use."""

    nodes: Annotated[
        int,
        about("Number of nodes that new replicas can use, including nodes that an autoscaler can add.", ge=0),
    ]
    growth: Annotated[
        int, about("Number of these nodes that don't exist yet and that an autoscaler can add.", ge=0)
    ] = 0
    missing: Annotated[
        tuple[MissingDevices, ...],
        about(
            "Devices that are missing on some of these nodes, if the pool counts devices.",
            max_length=MAX_TERMS,
            atomic=True,
        ),
    ] = ()
    terms: Annotated[
        tuple[CapacityTerm, ...],
        about("The unusable part of the declared capacity, by cause.", max_length=MAX_TERMS, atomic=True),
    ] = ()
    rises_at: (
        Annotated[
            dt.datetime,
            about("Time at which recovered capacity becomes usable again. Absent if none is recovering."),
        ]
        | None
    ) = None
