"""The pools of an AKS cluster: the system pool, which is part of the cluster, and the others."""

from typing import Any

from modelplane.api.clouds.aks_cluster import AKSCluster, AKSNodePool
from modelplane.compose.clouds.nodes import SYSTEM, system_pool
from modelplane.compose.clouds.site import Spec

FEWEST_SYSTEM_NODES = 1
"""Source: AKS, "System node pools"."""


def system_of(cluster: AKSCluster) -> AKSNodePool:
    """Return the system pool, which is part of the cluster."""
    settings = cluster.spec.system_pool
    return system_pool(
        cluster.spec.node_pools,
        AKSNodePool,
        settings,
        vm_size=settings.vm_size,
        disk_size_gb=settings.disk_size_gb,
    )


def size(pool: AKSNodePool) -> tuple[dict[str, Any], Spec]:
    """Return the size of a pool, and that of an autoscaled one at first, which the autoscaler changes."""
    fewest = max(pool.min_node_count, FEWEST_SYSTEM_NODES) if pool.name == SYSTEM else pool.min_node_count
    is_fixed = fewest == pool.max_node_count
    found: dict[str, Any] = {"autoScalingEnabled": not is_fixed}
    if is_fixed:
        return {**found, "nodeCount": fewest}, {}
    return {**found, "minCount": fewest, "maxCount": pool.max_node_count}, {"nodeCount": pool.node_count}


def machine(pool: AKSNodePool) -> dict[str, Any]:
    """Return the machines of a pool, and their zones."""
    zones = {"zones": list(pool.zones)} if pool.zones else {}
    return {"vmSize": pool.vm_size, "osDiskSizeGb": pool.disk_size_gb, **zones}
