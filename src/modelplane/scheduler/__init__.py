"""Placement of a deployment's replicas: a pure function of the observed fleet.

`schedule` keeps no state, and moves a replica only if it has to.
"""

from modelplane.api.fields.cluster.devices import Claim
from modelplane.api.fields.cluster.drain_settings import TaintEffect as Effect
from modelplane.api.fields.cluster.node_pools import Accounting
from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.api.fields.pods.engines import Role
from modelplane.api.model_deployment import TolerationOperator as Operator
from modelplane.cel.device import AttributeValue, Version
from modelplane.scheduler.capacity.pool_usage import Amount, Usage, list_overcommitted, measure_usage
from modelplane.scheduler.diagnosis import Block, Diagnosis, Exclusion, Remedy
from modelplane.scheduler.existing.drain import describe_drain, list_moving
from modelplane.scheduler.existing.surge import mark_surge, place_surge, unmark_surge
from modelplane.scheduler.filters.accepted_pods import check_pod_keys
from modelplane.scheduler.placement.alternatives import Alternatives, list_alternatives
from modelplane.scheduler.placement.cost import Cost
from modelplane.scheduler.placement.market import Market, Spot
from modelplane.scheduler.placement.placement import Assignment, Dropped, Placement
from modelplane.scheduler.placement.spot import find_spot_pools
from modelplane.scheduler.quotas.quota_ledger import QuotaUse, measure_quota_usage
from modelplane.scheduler.quotas.quotas import Limit, Quota, index_by_namespace
from modelplane.scheduler.schedule import schedule
from modelplane.scheduler.types import (
    CacheFootprint,
    Capabilities,
    Cluster,
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
    Taint,
    Toleration,
    Usable,
)
from modelplane.scheduler.verdict import Reason

__all__ = [
    "Accounting",
    "Alternatives",
    "Amount",
    "Assignment",
    "AttributeValue",
    "Block",
    "CacheFootprint",
    "Capabilities",
    "Claim",
    "Cluster",
    "Cost",
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
    "Market",
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
    "ResolvedRequest",
    "Role",
    "Spot",
    "Taint",
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
    "mark_surge",
    "measure_quota_usage",
    "measure_usage",
    "place_surge",
    "schedule",
    "unmark_surge",
]
