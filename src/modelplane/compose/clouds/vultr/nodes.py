"""The nodes of a Vultr cluster: a pool for each in the settings. The system pool is part of the cluster."""

from collections.abc import Iterable
from typing import Any

from modelplane.api import labels
from modelplane.api.cloud_cluster import PoolRole
from modelplane.api.node_pools import NodeTaint
from modelplane.api.vultr_cluster import VultrCluster, VultrNodePool
from modelplane.compose.clouds.nodes import GPU_TAINT, WITHOUT_LATE_INITIALIZATION
from modelplane.compose.clouds.site import Parts, Site, Waiting
from modelplane.compose.clouds.vultr.kinds import NODE_POOL


def compose(site: Site[VultrCluster]) -> Parts:
    """Compose every pool, once there is a cluster: Vultr adds none to one that it is still making."""
    for pool in site.owner.spec.node_pools:
        key = f"nodepool-{pool.name}"
        if not site.text("cluster", "id"):
            yield Waiting(key, "the id of the cluster, which Vultr reports")
            continue
        size, first_size = _size(pool)
        yield site.managed(
            key,
            NODE_POOL,
            {
                "clusterIdRef": {"name": site.name("cluster")},
                "label": pool.name,
                "plan": pool.plan,
                **size,
                **_node(pool),
            },
            managementPolicies=WITHOUT_LATE_INITIALIZATION,
            **first_size,
        )


def _size(pool: VultrNodePool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the size of a pool, and that of an autoscaled one at first, which the autoscaler changes."""
    is_fixed = pool.max_node_count is None
    size: dict[str, Any] = {"autoScaler": not is_fixed}
    if is_fixed:
        return {**size, "nodeQuantity": pool.node_count}, {}
    fewest = pool.node_count if pool.min_node_count is None else pool.min_node_count
    bounds = {"minNodes": fewest, "maxNodes": pool.max_node_count}
    return {**size, **bounds}, {"initProvider": {"nodeQuantity": pool.node_count}}


def _node(pool: VultrNodePool) -> dict[str, Any]:
    node_labels = {labels.POOL: pool.name}
    tainted: Iterable[NodeTaint] = pool.taints
    if pool.role is PoolRole.GPU and pool.gpu is not None:
        node_labels[labels.GPU] = pool.gpu.accelerator_type
        tainted = (GPU_TAINT, *pool.taints)
    node: dict[str, Any] = {"labels": [{"key": key, "value": value} for key, value in node_labels.items()]}
    if tainted:
        node["taints"] = [
            {"key": each.key, "value": each.value, "effect": str(each.effect)} for each in tainted
        ]
    return node
