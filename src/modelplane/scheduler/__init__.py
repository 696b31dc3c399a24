"""Where each replica of a deployment goes: a pure function of the fleet as observed.

One rule: `schedule` remembers nothing and moves nothing that need not move.
"""

from modelplane.cel.device import AttributeValue, Version
from modelplane.scheduler.cluster import Capabilities, Cluster, Pool
from modelplane.scheduler.deployment import (
    CacheFootprint,
    Deployment,
    DeviceRequest,
    Engine,
    Member,
    Mode,
    Phase,
    Role,
)
from modelplane.scheduler.device import Claim, Device
from modelplane.scheduler.diagnosis import Diagnosis
from modelplane.scheduler.fleet import Fleet
from modelplane.scheduler.placement import Assignment, Dropped, Placement
from modelplane.scheduler.replica import PlacedEngine, PlacedMember, Replica, ResolvedRequest
from modelplane.scheduler.schedule import schedule
from modelplane.scheduler.taint import Effect, Operator, Taint, Toleration

__all__ = [
    "Assignment",
    "AttributeValue",
    "CacheFootprint",
    "Capabilities",
    "Claim",
    "Cluster",
    "Deployment",
    "Device",
    "DeviceRequest",
    "Diagnosis",
    "Dropped",
    "Effect",
    "Engine",
    "Fleet",
    "Member",
    "Mode",
    "Operator",
    "Phase",
    "PlacedEngine",
    "PlacedMember",
    "Placement",
    "Pool",
    "Replica",
    "ResolvedRequest",
    "Role",
    "Taint",
    "Toleration",
    "Version",
    "schedule",
]
