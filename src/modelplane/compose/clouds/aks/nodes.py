"""The nodes of an AKS cluster: a pool for each of the settings but the system pool."""

from collections.abc import Iterable
from typing import Any

from modelplane.api import labels
from modelplane.api.clouds.aks_cluster import AKSCluster, AKSNodePool
from modelplane.api.clouds.cloud_cluster import PoolRole
from modelplane.api.fields.cluster.node_pools import SPOT_TAINT, NodeTaint
from modelplane.compose.clouds.aks.kinds import NODE_POOL
from modelplane.compose.clouds.aks.network import group_name, in_subnet
from modelplane.compose.clouds.aks.pools import machine, size
from modelplane.compose.clouds.nodes import GPU_TAINT, WITHOUT_LATE_INITIALIZATION, at_first, others
from modelplane.compose.clouds.site import Parts, Site

MODE = "User"
"""The cluster does not depend on such a pool, which may be empty. Source: AKS, "System node pools"."""

SPOT = {
    "priority": "Spot",
    "evictionPolicy": "Delete",
    "spotMaxPrice": -1,
}
"""Nodes at no more than the price of others, which are deleted when they are taken back: stopped ones would
count against the quota. Source: AKS, "Add an Azure Spot node pool to an Azure Kubernetes Service (AKS)
cluster"."""


def compose(site: Site[AKSCluster]) -> Parts:
    """Compose every pool."""
    for pool in others(site.owner.spec.node_pools):
        pool_size, first_size = size(pool)
        yield site.managed(
            f"nodepool-{pool.name}",
            NODE_POOL,
            {
                **in_subnet(site),
                "kubernetesClusterIdRef": {"name": group_name(site)},
                "mode": MODE,
                **machine(pool),
                **pool_size,
                **_node(site, pool),
            },
            external_name=pool.name,
            managementPolicies=WITHOUT_LATE_INITIALIZATION,
            **at_first(first_size),
        )


def _node(site: Site[AKSCluster], pool: AKSNodePool) -> dict[str, Any]:
    node_labels = {labels.POOL: pool.name}
    tainted: Iterable[NodeTaint] = pool.taints
    node: dict[str, Any] = {"nodeLabels": node_labels}
    if pool.role is PoolRole.GPU and pool.gpu is not None:
        node_labels[labels.GPU] = pool.gpu.accelerator_type
        tainted = (GPU_TAINT, *pool.taints)
        node["gpuDriver"] = str(site.owner.spec.gpu_driver)
    if pool.spot:
        # AKS adds both; without them here, the provider would take them away.
        node_labels[SPOT_TAINT.key] = SPOT_TAINT.value
        tainted = (*tainted, *(() if SPOT_TAINT in pool.taints else (SPOT_TAINT,)))
        node |= SPOT
    if tainted:
        node["nodeTaints"] = list(map(_taint, tainted))
    return node


def _taint(taint: NodeTaint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"
