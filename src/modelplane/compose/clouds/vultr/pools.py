"""The pools of a Vultr cluster: the system pool, which is part of the cluster, and the others."""

from collections.abc import Iterable
from typing import Any

from modelplane.api import labels
from modelplane.api.clouds.cloud_cluster import PoolRole
from modelplane.api.clouds.vultr_cluster import VultrCluster, VultrNodePool
from modelplane.api.fields.cluster.node_pools import NodeTaint
from modelplane.compose.clouds.nodes import GPU_TAINT, system_pool
from modelplane.compose.clouds.site import Spec


def system_of(cluster: VultrCluster) -> VultrNodePool:
    """Return the system pool, which is part of the cluster."""
    settings = cluster.spec.system_pool
    return system_pool(cluster.spec.node_pools, VultrNodePool, settings, plan=settings.plan)


def size(pool: VultrNodePool) -> tuple[dict[str, Any], Spec]:
    """Return the size of a pool, and that of an autoscaled one at first, which the autoscaler changes."""
    is_fixed = pool.max_node_count is None
    found: dict[str, Any] = {"autoScaler": not is_fixed}
    if is_fixed:
        return {**found, "nodeQuantity": pool.node_count}, {}
    fewest = pool.node_count if pool.min_node_count is None else pool.min_node_count
    bounds = {"minNodes": fewest, "maxNodes": pool.max_node_count}
    return {**found, **bounds}, {"nodeQuantity": pool.node_count}


def nodes_of(pool: VultrNodePool) -> dict[str, Any]:
    """Return the name of a pool, and the machines, labels and taints of its nodes."""
    node_labels = {labels.POOL: pool.name}
    tainted: Iterable[NodeTaint] = pool.taints
    if pool.role is PoolRole.GPU and pool.gpu is not None:
        node_labels[labels.GPU] = pool.gpu.accelerator_type
        tainted = (GPU_TAINT, *pool.taints)
    listed = [{"key": key, "value": value} for key, value in node_labels.items()]
    node: dict[str, Any] = {"label": pool.name, "plan": pool.plan, "labels": listed}
    if tainted:
        node["taints"] = [
            {"key": taint.key, "value": taint.value, "effect": str(taint.effect)} for taint in tainted
        ]
    return node
