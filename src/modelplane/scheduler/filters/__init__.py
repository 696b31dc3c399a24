"""Filters that refuse a cluster or a pool: one per file, each a function that returns its reason.

A filter reads one deployment and one cluster (or the devices of one node), and decides nothing else.
"""

from collections.abc import Callable
from typing import Final

from modelplane.scheduler.filters.accepted_pods import pod_keys
from modelplane.scheduler.filters.cache_footprint import cache_footprint
from modelplane.scheduler.filters.capabilities import capabilities
from modelplane.scheduler.filters.cluster_selector import cluster_selector
from modelplane.scheduler.filters.cordon import cordon
from modelplane.scheduler.filters.ready_cluster import gateway, readiness
from modelplane.scheduler.filters.region_rule import regions
from modelplane.scheduler.filters.taints import taints
from modelplane.scheduler.types import Cluster, Deployment
from modelplane.scheduler.verdict import FIT, Verdict

CLUSTER_FILTERS: Final[tuple[Callable[[Deployment, Cluster], Verdict], ...]] = (
    regions,
    cluster_selector,
    cache_footprint,
    taints,
    cordon,
    readiness,
    gateway,
    capabilities,
    pod_keys,
)


def admit(deployment: Deployment, cluster: Cluster) -> Verdict:
    """Return the first filter's refusal of a cluster for new replicas, or a fit."""
    for rule in CLUSTER_FILTERS:
        verdict = rule(deployment, cluster)
        if verdict is not FIT:
            return verdict
    return FIT
