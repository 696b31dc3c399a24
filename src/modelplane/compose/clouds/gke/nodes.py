"""The nodes of a GKE cluster: the system pool, and a pool of GPU nodes for each in the settings.

Counts are over all zones of a pool. Where GKE counts nodes of each zone, they are divided.
"""

from typing import Any

from modelplane.api import labels
from modelplane.api.clouds.cloud_cluster import PoolRole
from modelplane.api.clouds.gke_cluster import GKECluster, GKENodePool
from modelplane.compose.clouds.gke import project
from modelplane.compose.clouds.gke.cluster import LONGEST_NAME, cluster_name
from modelplane.compose.clouds.gke.kinds import NODE_POOL
from modelplane.compose.clouds.nodes import WITHOUT_LATE_INITIALIZATION, system_pool, taints, with_system
from modelplane.compose.clouds.site import Parts, Site

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
"""Nodes may use every API that their service account may. Source: GKE, "Access scopes in GKE"."""

DRA_LABEL = {"cloud.google.com/gke-nvidia-gpu-dra-driver": "true"}
"""The autoscaler counts on the DRA driver, so that a pool scales from zero. Source: GKE, "Prepare GPU
infrastructure for DRA workloads"."""

DEFAULT_ZONES = 3
"""Zones of a pool that names none. Source: GKE, "Regional clusters"."""


def pools(cluster: GKECluster) -> tuple[GKENodePool, ...]:
    """Return the pools of a cluster, with the system pool."""
    given, settings = cluster.spec.node_pools, cluster.spec.system_pool
    system = system_pool(
        given,
        GKENodePool,
        settings,
        machine_type=settings.machine_type,
        disk_size_gb=settings.disk_size_gb,
    )
    return with_system(system, given)


def compose(site: Site[GKECluster]) -> Parts:
    """Compose every pool."""
    for pool in pools(site.owner):
        locations = {"nodeLocations": list(pool.zones)} if pool.zones else {}
        yield site.managed(
            f"nodepool-{pool.name}",
            NODE_POOL,
            {
                **project.given(site),
                "location": site.owner.spec.region,
                "clusterRef": {"name": cluster_name(site)},
                **locations,
                **_size(pool),
                "nodeConfig": _node(site, pool),
            },
            site.name("nodepool", pool.name, limit=LONGEST_NAME),
            managementPolicies=WITHOUT_LATE_INITIALIZATION,
            **_first_size(pool),
        )


def uneven(pool: GKENodePool) -> bool:
    """Return True if a pool of fixed size cannot have the same number of nodes in each zone."""
    return _is_fixed(pool) and pool.max_node_count % _zones(pool) != 0


def _is_fixed(pool: GKENodePool) -> bool:
    return pool.min_node_count == pool.max_node_count


def _zones(pool: GKENodePool) -> int:
    return len(pool.zones) or DEFAULT_ZONES


def _size(pool: GKENodePool) -> dict[str, Any]:
    """Return the number of nodes in each zone of a pool of fixed size, or the limits over all zones."""
    if _is_fixed(pool):
        return {"nodeCount": pool.max_node_count // _zones(pool)}
    return {
        "autoscaling": {"totalMinNodeCount": pool.min_node_count, "totalMaxNodeCount": pool.max_node_count}
    }


def _first_size(pool: GKENodePool) -> dict[str, Any]:
    """Return the number of nodes in each zone at first, which the autoscaler changes: rounded up."""
    return (
        {} if _is_fixed(pool) else {"initProvider": {"initialNodeCount": -(-pool.node_count // _zones(pool))}}
    )


def _node(site: Site[GKECluster], pool: GKENodePool) -> dict[str, Any]:
    spec = site.owner.spec
    node: dict[str, Any] = {
        "machineType": pool.machine_type,
        "diskSizeGb": pool.disk_size_gb,
        "imageType": spec.image_type,
        "oauthScopes": SCOPES,
        "labels": {labels.POOL: pool.name},
    }
    if pool.spot:
        node["spot"] = True
    if pool.taints:
        node["taint"] = taints(pool.taints)
    if pool.role is PoolRole.GPU and pool.gpu is not None:
        node["labels"] |= {labels.GPU: pool.gpu.accelerator_type, **DRA_LABEL}
        node["guestAccelerator"] = [
            {
                "type": pool.gpu.accelerator_type,
                "count": pool.gpu.accelerator_count,
                "gpuDriverInstallationConfig": {"gpuDriverVersion": spec.gpu_driver},
            }
        ]
    return node
