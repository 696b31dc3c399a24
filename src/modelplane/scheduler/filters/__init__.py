"""Filters that refuse a cluster or a pool: one per file, each a function that returns its reason.

A filter reads one deployment and one cluster (or the devices of one node), and decides nothing else.
"""

from collections.abc import Callable
from typing import Final

from modelplane.api.rejected import Rejected
from modelplane.scheduler.filters.accepted_pod_keys import check_pod_keys
from modelplane.scheduler.filters.cache_footprint import check_cache_footprint
from modelplane.scheduler.filters.capabilities import check_capabilities
from modelplane.scheduler.filters.cluster_selector import check_cluster_selector
from modelplane.scheduler.filters.cordon import check_cordon
from modelplane.scheduler.filters.ready_cluster import check_gateway, check_readiness
from modelplane.scheduler.filters.region_rule import check_regions
from modelplane.scheduler.filters.taints import check_taints
from modelplane.scheduler.types import Cluster, Deployment

CLUSTER_FILTERS: Final[tuple[Callable[[Deployment, Cluster], Rejected | None], ...]] = (
    check_regions,
    check_cluster_selector,
    check_cache_footprint,
    check_taints,
    check_cordon,
    check_readiness,
    check_gateway,
    check_capabilities,
    check_pod_keys,
)


def admit(deployment: Deployment, cluster: Cluster) -> Rejected | None:
    """Return why a cluster takes no new replica, by the first filter; None if it may."""
    for rule in CLUSTER_FILTERS:
        rejected = rule(deployment, cluster)
        if rejected is not None:
            return rejected
    return None
