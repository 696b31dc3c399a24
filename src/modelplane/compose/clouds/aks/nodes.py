"""The nodes of an AKS cluster: a pool for each in the settings. The system pool is part of the cluster."""

from collections.abc import Iterable
from typing import Any

from modelplane.api import labels
from modelplane.api.aks_cluster import AKSCluster, AKSNodePool
from modelplane.api.cloud_cluster import PoolRole
from modelplane.api.node_pools import NodeTaint
from modelplane.compose.clouds.aks.kinds import NODE_POOL
from modelplane.compose.clouds.aks.network import group_name, in_subnet
from modelplane.compose.clouds.nodes import GPU_TAINT, WITHOUT_LATE_INITIALIZATION
from modelplane.compose.clouds.site import Parts, Site

MODE = "User"
"""The cluster does not depend on such a pool, which may be empty. Source: AKS, "System node pools"."""


def compose(site: Site[AKSCluster]) -> Parts:
    """Compose every pool."""
    for pool in site.owner.spec.node_pools:
        size, first_size = _size(pool)
        yield site.managed(
            f"nodepool-{pool.name}",
            NODE_POOL,
            {
                **in_subnet(site),
                "kubernetesClusterIdRef": {"name": group_name(site)},
                "mode": MODE,
                "vmSize": pool.vm_size,
                "osDiskSizeGb": pool.disk_size_gb,
                **size,
                **_node(site, pool),
                **({"zones": list(pool.zones)} if pool.zones else {}),
            },
            external_name=pool.name,
            managementPolicies=WITHOUT_LATE_INITIALIZATION,
            **first_size,
        )


def _size(pool: AKSNodePool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the size of a pool, and that of an autoscaled one at first, which the autoscaler changes."""
    is_fixed = pool.min_node_count == pool.max_node_count
    size: dict[str, Any] = {"autoScalingEnabled": not is_fixed}
    if is_fixed:
        return {**size, "nodeCount": pool.max_node_count}, {}
    bounds = {"minCount": pool.min_node_count, "maxCount": pool.max_node_count}
    return {**size, **bounds}, {"initProvider": {"nodeCount": pool.node_count}}


def _node(site: Site[AKSCluster], pool: AKSNodePool) -> dict[str, Any]:
    node_labels = {labels.POOL: pool.name}
    tainted: Iterable[NodeTaint] = pool.taints
    node: dict[str, Any] = {"nodeLabels": node_labels}
    if pool.role is PoolRole.GPU and pool.gpu is not None:
        node_labels[labels.GPU] = pool.gpu.accelerator_type
        tainted = (GPU_TAINT, *pool.taints)
        node["gpuDriver"] = str(site.owner.spec.gpu_driver)
    if tainted:
        node["nodeTaints"] = list(map(_taint, tainted))
    return node


def _taint(taint: NodeTaint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"
