"""DeviceQuota: the devices that a team's namespaces may hold, and the priorities that they may use.

The words are Kueue's: a quota of a cohort borrows what the others do not use, within its `borrowingLimit` and
their `lendingLimit`.
"""

from enum import StrEnum
from typing import Annotated, Final

from modelplane.api.meta import Model, ObjectMeta, Status
from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN, Rule, about

MOST_NAMESPACES: Final = 64
MOST_LIMITS: Final = 32
MOST_PRIORITY_CLASSES: Final = 16
MOST_DEVICES: Final = 10_000_000
"""Largest quota: more devices than any fleet has."""

SYSTEM_PREFIX: Final = "system-"
"""Beginning of the names of Kubernetes' own PriorityClasses, which no deployment may use."""

NamespaceName = Annotated[str, about("Name of a namespace.", min_length=1, max_length=63, pattern=DNS_LABEL)]
PriorityClassName = Annotated[
    str,
    about("Name of a PriorityClass.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN),
]


class ClassQuota(Model):
    """Limits on the devices of one InferenceClass."""

    __rules__ = (
        Rule(
            "!has(self.lendingLimit) || self.lendingLimit <= self.nominalQuota",
            "lendingLimit must not be greater than nominalQuota",
        ),
    )

    class_name: Annotated[
        str,
        about(
            "InferenceClass of the node pools. A class that is not listed is not limited.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]
    device_name: (
        Annotated[
            str,
            about(
                "Device entry of the class. Absent: the first one.",
                min_length=1,
                max_length=63,
                pattern=DNS_LABEL,
            ),
        ]
        | None
    ) = None
    nominal_quota: Annotated[
        int,
        about(
            "Devices that the namespaces may hold without borrowing. Whole nodes count where pools count "
            "nodes, claims where they count devices.",
            ge=0,
            le=MOST_DEVICES,
        ),
    ]
    borrowing_limit: (
        Annotated[
            int,
            about(
                "Maximum number of devices to borrow from the cohort. Absent: all that it lends.",
                ge=0,
                le=MOST_DEVICES,
            ),
        ]
        | None
    ) = None
    lending_limit: (
        Annotated[
            int,
            about(
                "Maximum number of devices to lend to the cohort. Absent: all that is unused.",
                ge=0,
                le=MOST_DEVICES,
            ),
        ]
        | None
    ) = None


class PreemptionPolicy(StrEnum):
    """Replicas that a replica without a place may displace."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class Preemption(Model):
    """Preemption by the deployments of the namespaces."""

    within_cohort: Annotated[
        PreemptionPolicy,
        about(
            "Never: none. LowerPriority: replicas of deployments of lower priority, in the namespaces of "
            "this quota and of the others of its cohort. They are drained first, and the last replica of a "
            "deployment that serves stays."
        ),
    ] = PreemptionPolicy.NEVER


class DeviceQuotaSpec(Model):
    """Namespaces, and what they may hold and use."""

    __rules__ = (
        Rule(
            "!has(self.classes) || has(self.cohort) || "
            "self.classes.all(c, !has(c.borrowingLimit) && !has(c.lendingLimit))",
            "borrowingLimit and lendingLimit need a cohort: set cohort, or remove them",
        ),
        Rule(
            "!has(self.classes) || self.classes.all(a, self.classes.exists_one(b, "
            "a.className == b.className && (has(a.deviceName) ? a.deviceName : '') == "
            "(has(b.deviceName) ? b.deviceName : '')))",
            "a device of a class is listed twice: keep one of the entries",
        ),
        Rule(
            "!has(self.priorityClassNames) || self.priorityClassNames.all(name, "
            f"!name.startsWith('{SYSTEM_PREFIX}'))",
            f"the PriorityClasses whose names begin with {SYSTEM_PREFIX} are those of Kubernetes itself: "
            "name others",
        ),
    )

    namespaces: Annotated[
        tuple[NamespaceName, ...],
        about(
            "Namespaces whose ModelDeployments share the quota. A namespace is in one DeviceQuota at most; "
            "one that is in none is not limited.",
            min_length=1,
            max_length=MOST_NAMESPACES,
            unique=True,
        ),
    ]
    cohort: (
        Annotated[
            str,
            about(
                "Group of DeviceQuotas that lend devices to each other. Absent: none.",
                min_length=1,
                max_length=63,
                pattern=DNS_LABEL,
            ),
        ]
        | None
    ) = None
    classes: Annotated[
        tuple[ClassQuota, ...],
        about("Limits by class. Absent: no limits.", min_length=1, max_length=MOST_LIMITS, atomic=True),
    ] = ()
    priority_class_names: Annotated[
        tuple[PriorityClassName, ...],
        about(
            "PriorityClasses (scheduling.k8s.io) that ModelDeployments of the namespaces may name. Absent: "
            "none.",
            min_length=1,
            max_length=MOST_PRIORITY_CLASSES,
            unique=True,
        ),
    ] = ()
    preemption: Annotated[Preemption, about("Preemption by the deployments of the namespaces.")] = (
        Preemption()
    )


class ClassUsage(Model):
    """Use of one device of a class."""

    class_name: Annotated[str, about("InferenceClass of the node pools.")]
    device_name: Annotated[str, about("Device entry of the class.")]
    used: Annotated[
        int, about("Devices that the replicas of the namespaces hold, until they are gone.", ge=0)
    ]
    borrowed: Annotated[int, about("Those of them that are beyond nominalQuota.", ge=0)] = 0
    capacity: Annotated[int, about("Devices that the fleet's pools of the class have.", ge=0)] = 0


class PriorityClassValue(Model):
    """A PriorityClass, as it was read."""

    name: Annotated[str, about("Name of the PriorityClass.")]
    value: Annotated[int, about("Its value: deployments with higher ones are placed first.")]
    preempts: Annotated[bool, about("False if its preemptionPolicy is Never.")] = True


class DeviceQuotaStatus(Status):
    """Use of the quota."""

    classes: Annotated[
        tuple[ClassUsage, ...],
        about("Use by class and device.", max_length=MOST_LIMITS, keys=("className", "deviceName")),
    ] = ()
    priority_classes: Annotated[
        tuple[PriorityClassValue, ...],
        about(
            "The PriorityClasses that exist, of those in spec.priorityClassNames.",
            max_length=MOST_PRIORITY_CLASSES,
            keys=("name",),
        ),
    ] = ()


class DeviceQuota(Model):
    """Limits on the devices that namespaces hold together, and the priorities that they may use."""

    metadata: ObjectMeta
    spec: Annotated[DeviceQuotaSpec, about("Namespaces, and what they may hold and use.")]
    status: Annotated[DeviceQuotaStatus, about("Use of the quota.")] = DeviceQuotaStatus()
