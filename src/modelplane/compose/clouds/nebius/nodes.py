"""The nodes of a Nebius cluster: the system group, and a group for each pool of the settings."""

from collections.abc import Iterable
from typing import Any

from modelplane.api import labels
from modelplane.api.clouds.cloud_cluster import PoolRole
from modelplane.api.clouds.nebius_cluster import NebiusCluster, NebiusNodePool
from modelplane.api.fields.cluster.node_pools import NodeTaint
from modelplane.compose.clouds.nebius.fabric import membership
from modelplane.compose.clouds.nebius.kinds import NODE_GROUP
from modelplane.compose.clouds.nebius.nebius_names import named
from modelplane.compose.clouds.nebius.storage import attachment
from modelplane.compose.clouds.nodes import (
    GPU_TAINT,
    WITHOUT_LATE_INITIALIZATION,
    system_pool,
    taints,
    with_system,
)
from modelplane.compose.clouds.site import Parts, Site

PREEMPTIBLE: dict[str, Any] = {}
"""Present for preemptible nodes; it has no fields. Source: provider-upjet-nebius, NodeGroup."""


def pools(cluster: NebiusCluster) -> tuple[NebiusNodePool, ...]:
    """Return the pools of a cluster, with the system pool."""
    given, settings = cluster.spec.node_pools, cluster.spec.system_pool
    system = system_pool(
        given,
        NebiusNodePool,
        settings,
        platform=settings.platform,
        preset=settings.preset,
        disk_size_gb=settings.disk_size_gb,
    )
    return with_system(system, given)


def compose(site: Site[NebiusCluster]) -> Parts:
    """Compose every pool."""
    for pool in pools(site.owner):
        yield named(
            site,
            f"nodegroup-{pool.name}",
            NODE_GROUP,
            {
                "parentIdRef": {"name": site.name("cluster")},
                **_size(pool),
                "template": {
                    "resources": {"platform": pool.platform, "preset": pool.preset},
                    "bootDisk": {
                        "type": site.owner.spec.boot_disk_type,
                        "sizeGibibytes": pool.disk_size_gb,
                    },
                    **attachment(site),
                    **membership(site, pool),
                    **_node(pool),
                },
            },
            managementPolicies=WITHOUT_LATE_INITIALIZATION,
        )


def _size(pool: NebiusNodePool) -> dict[str, Any]:
    """Return the fixed size of a pool, or the bounds of its autoscaling, which begins with the fewest."""
    if pool.max_node_count is None:
        return {"fixedNodeCount": pool.node_count}
    fewest = pool.node_count if pool.min_node_count is None else pool.min_node_count
    return {"autoscaling": {"minNodeCount": fewest, "maxNodeCount": pool.max_node_count}}


def _node(pool: NebiusNodePool) -> dict[str, Any]:
    node_labels = {labels.POOL: pool.name}
    tainted: Iterable[NodeTaint] = pool.taints
    node: dict[str, Any] = {"metadata": {"labels": node_labels}}
    if pool.role is PoolRole.GPU and pool.gpu is not None:
        node_labels[labels.GPU] = pool.gpu.accelerator_type
        tainted = (GPU_TAINT, *pool.taints)
        node["gpuSettings"] = {"driversPreset": pool.gpu.drivers_preset}
    if pool.spot:
        node["preemptible"] = PREEMPTIBLE
    if tainted:
        node["taints"] = taints(tainted)
    return node
