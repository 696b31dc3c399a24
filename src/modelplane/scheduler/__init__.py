"""Placement of a deployment's replicas: a pure function of the observed fleet.

`schedule` keeps no state, and moves a replica only if it has to.
"""

from modelplane.api.fields.cluster.devices import Claim
from modelplane.api.fields.cluster.drain_settings import TaintEffect as Effect
from modelplane.api.fields.cluster.node_pools import Accounting
from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.api.fields.pods.engines import Role
from modelplane.api.model_deployment import TolerationOperator as Operator
from modelplane.cel.bindings import AttributeValue, Version
from modelplane.scheduler.departures import Cause, Departure, Role as ReplicaRole
from modelplane.scheduler.diagnosis import Block, Diagnosis, Exclusion, Remedy
from modelplane.scheduler.existing.drain import describe_drain, list_moving
from modelplane.scheduler.filters.accepted_pod_keys import check_pod_keys
from modelplane.scheduler.placement.capacity_type import CapacityType, Spot
from modelplane.scheduler.placement.cost import Cost
from modelplane.scheduler.placement.placement_result import Assignment, Dropped, Placement
from modelplane.scheduler.placement.spot import find_spot_pools
from modelplane.scheduler.pool_usage import Amount, Usage, list_overcommitted, sum_usage
from modelplane.scheduler.quota_ledger import QuotaUse, sum_quota_usage
from modelplane.scheduler.quotas import Limit, Quota, index_by_namespace
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.schedule import Alternatives, list_alternatives, schedule
from modelplane.scheduler.types import (
    CacheFootprint,
    Capabilities,
    Cluster,
    Demand,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    Phase,
    PlacedEngine,
    PlacedMember,
    Pool,
    Priority,
    Replica,
    ResolvedRequest,
    Surge,
    Taint,
    Template,
    Toleration,
    Usable,
)

__all__ = [
    "Accounting",
    "Alternatives",
    "Amount",
    "Assignment",
    "AttributeValue",
    "Block",
    "CacheFootprint",
    "Capabilities",
    "CapacityType",
    "Cause",
    "Claim",
    "Cluster",
    "Cost",
    "Demand",
    "Departure",
    "Deployment",
    "Device",
    "DeviceRequest",
    "Diagnosis",
    "Dropped",
    "Effect",
    "Engine",
    "Exclusion",
    "Fleet",
    "Limit",
    "Member",
    "Operator",
    "Phase",
    "PlacedEngine",
    "PlacedMember",
    "Placement",
    "PlacementPolicy",
    "Pool",
    "Priority",
    "Quota",
    "QuotaUse",
    "Reason",
    "Remedy",
    "Replica",
    "ReplicaRole",
    "ResolvedRequest",
    "Role",
    "Spot",
    "Surge",
    "Taint",
    "Template",
    "Toleration",
    "Usable",
    "Usage",
    "Version",
    "check_pod_keys",
    "describe_drain",
    "find_spot_pools",
    "index_by_namespace",
    "list_alternatives",
    "list_moving",
    "list_overcommitted",
    "schedule",
    "sum_quota_usage",
    "sum_usage",
]
