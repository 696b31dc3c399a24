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
    """Quota for the devices of one InferenceClass."""

    __rules__ = (
        Rule(
            "!has(self.lendingLimit) || self.lendingLimit <= self.nominalQuota",
            "lendingLimit must not be greater than nominalQuota",
        ),
    )

    class_name: Annotated[
        str,
        about(
            "InferenceClass of the node pools. Classes that are not listed are not limited.",
            min_length=1,
            max_length=253,
            pattern=DNS_SUBDOMAIN,
        ),
    ]
    device_name: (
        Annotated[
            str,
            about(
                "Device entry of the class. Default: the first entry.",
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
            "Number of devices that the namespaces can use without borrowing. In pools with "
            "accounting Nodes, a replica uses every device of the nodes it takes; with "
            "accounting Devices, only the devices it claims.",
            ge=0,
            le=MOST_DEVICES,
        ),
    ]
    borrowing_limit: (
        Annotated[
            int,
            about(
                "Maximum number of devices to borrow from the cohort. Default: all devices that the "
                "cohort lends.",
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
                "Maximum number of devices to lend to the cohort. Default: all unused devices.",
                ge=0,
                le=MOST_DEVICES,
            ),
        ]
        | None
    ) = None


class PreemptionPolicy(StrEnum):
    """Replicas that can be preempted for a replica that doesn't fit."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class Preemption(Model):
    """Preemption for the deployments in the namespaces."""

    within_cohort: Annotated[
        PreemptionPolicy,
        about(
            "Replicas that can be preempted. Never: none. LowerPriority: replicas of deployments "
            "with a lower priority, in the namespaces of this quota and of the other quotas in "
            "the cohort. Preempted replicas are drained first. The last serving replica of a "
            "deployment is never preempted."
        ),
    ] = PreemptionPolicy.NEVER


class DeviceQuotaSpec(Model):
    """The namespaces that share the quota, and the limits."""

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
            "Namespaces whose ModelDeployments share the quota. A namespace can be in only one "
            "DeviceQuota. Namespaces without a DeviceQuota are not limited.",
            min_length=1,
            max_length=MOST_NAMESPACES,
            unique=True,
        ),
    ]
    cohort: (
        Annotated[
            str,
            about(
                "Group of DeviceQuotas that lend devices to each other. Default: none.",
                min_length=1,
                max_length=63,
                pattern=DNS_LABEL,
            ),
        ]
        | None
    ) = None
    classes: Annotated[
        tuple[ClassQuota, ...],
        about(
            "Limits for each class. Default: no limits.", min_length=1, max_length=MOST_LIMITS, atomic=True
        ),
    ] = ()
    priority_class_names: Annotated[
        tuple[PriorityClassName, ...],
        about(
            "PriorityClasses (scheduling.k8s.io) that ModelDeployments in the namespaces can "
            "use. Default: none.",
            min_length=1,
            max_length=MOST_PRIORITY_CLASSES,
            unique=True,
        ),
    ] = ()
    preemption: Annotated[Preemption, about("Preemption for the deployments in the namespaces.")] = (
        Preemption()
    )


class ClassUsage(Model):
    """Usage of one device of a class."""

    class_name: Annotated[str, about("InferenceClass of the node pools.")]
    device_name: Annotated[str, about("Device entry of the class.")]
    used: Annotated[
        int,
        about(
            "Number of devices that the replicas in the namespaces use, including replicas that "
            "are being deleted.",
            ge=0,
        ),
    ]
    borrowed: Annotated[int, about("Number of used devices above nominalQuota.", ge=0)] = 0
    capacity: Annotated[int, about("Number of devices in all pools of the class.", ge=0)] = 0


class PriorityClassValue(Model):
    """A PriorityClass that exists."""

    name: Annotated[str, about("Name of the PriorityClass.")]
    value: Annotated[
        int, about("Value of the PriorityClass. Deployments with a higher value are placed first.")
    ]
    preempts: Annotated[
        bool,
        about(
            "Whether deployments with this PriorityClass can preempt others. False if "
            "preemptionPolicy is Never."
        ),
    ] = True


class DeviceQuotaStatus(Status):
    """Usage of the quota."""

    classes: Annotated[
        tuple[ClassUsage, ...],
        about("Usage for each class and device.", max_length=MOST_LIMITS, keys=("className", "deviceName")),
    ] = ()
    priority_classes: Annotated[
        tuple[PriorityClassValue, ...],
        about(
            "The PriorityClasses in spec.priorityClassNames that exist.",
            max_length=MOST_PRIORITY_CLASSES,
            keys=("name",),
        ),
    ] = ()


class DeviceQuota(Model):
    """Limits the number of devices that a group of namespaces can use together, and the priorities that
    they can use."""

    metadata: ObjectMeta
    spec: Annotated[DeviceQuotaSpec, about("The namespaces that share the quota, and the limits.")]
    status: Annotated[DeviceQuotaStatus, about("Usage of the quota.")] = DeviceQuotaStatus()
