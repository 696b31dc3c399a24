"""The nodes of an EKS cluster: the system group, and a group of GPU nodes for each pool of the settings."""

from typing import Any

from modelplane.api import labels
from modelplane.api.clouds.cloud_cluster import PoolRole
from modelplane.api.clouds.eks_cluster import EKSCluster, EKSFabric, EKSNodePool
from modelplane.compose.clouds.eks import fabric
from modelplane.compose.clouds.eks.identity import NODE_ROLE, cluster_name
from modelplane.compose.clouds.eks.kinds import LAUNCH_TEMPLATE, NODE_GROUP
from modelplane.compose.clouds.eks.network import private_subnet
from modelplane.compose.clouds.eks.subnets import zones
from modelplane.compose.clouds.nodes import (
    GPU_TAINT,
    WITHOUT_LATE_INITIALIZATION,
    system_pool,
    taints,
    with_system,
)
from modelplane.compose.clouds.site import Parts, Site, Waiting

ROOT_DEVICE = "/dev/xvda"
"""Root device of Amazon Linux. Source: Amazon EC2, "Device names"."""

FROM_BLOCK = {
    "capacityType": "CAPACITY_BLOCK",
}
"""Source: Amazon EKS, "Capacity Blocks for ML"."""

FROM_SPOT = {
    "capacityType": "SPOT",
}
"""Source: Amazon EKS, "Managed node group capacity types"."""

BLOCK_MARKET = {"marketType": "capacity-block"}
"""Source: Amazon EKS, "Capacity Blocks for ML"."""

BLOCK_ONLY = "capacity-reservations-only"
"""Nodes of no other capacity are started, which would be billed as well. Source: EC2 API,
``LaunchTemplateCapacityReservationSpecificationRequest``."""

SMALLEST_MAXIMUM = 1
"""EKS refuses a smaller ``maxSize``. Source: EKS API, ``NodegroupScalingConfig``."""


def pools(cluster: EKSCluster) -> tuple[EKSNodePool, ...]:
    """Return the pools of a cluster, with the system pool."""
    given, settings = cluster.spec.node_pools, cluster.spec.system_pool
    system = system_pool(
        given,
        EKSNodePool,
        settings,
        instance_type=settings.instance_type,
        disk_size_gb=settings.disk_size_gb,
    )
    return with_system(system, given)


def compose(site: Site[EKSCluster]) -> Parts:
    """Compose every pool."""
    for pool in pools(site.owner):
        key = f"nodegroup-{pool.name}"
        if not _has_template(pool):
            machine = {"instanceTypes": [pool.instance_type], "diskSize": pool.disk_size_gb}
            yield _group(site, pool, key, machine | _capacity(pool))
            continue
        template = f"launch-template-{pool.name}"
        groups = fabric.security_groups(site)
        if pool.fabric is EKSFabric.EFA and not groups:
            cause = "the security groups of the cluster and its fabric, which AWS reports"
            yield Waiting(template, cause)
            yield Waiting(key, cause)
            continue
        yield _template(site, pool, template, groups)
        version = site.seen(template).get("latestVersion")
        if not isinstance(version, int | float):
            yield Waiting(key, f"the version of the launch template of pool {pool.name}, which AWS reports")
            continue
        launched = {"launchTemplate": {"name": _template_name(site, pool), "version": str(int(version))}}
        yield _group(site, pool, key, launched | _capacity(pool))


def _capacity(pool: EKSNodePool) -> dict[str, str]:
    if pool.capacity_block is not None:
        return FROM_BLOCK
    return FROM_SPOT if pool.spot else {}


def _has_template(pool: EKSNodePool) -> bool:
    return pool.capacity_block is not None or pool.fabric is EKSFabric.EFA


def _template_name(site: Site[EKSCluster], pool: EKSNodePool) -> str:
    return site.name(f"lt-{pool.name}")


def _template(site: Site[EKSCluster], pool: EKSNodePool, key: str, groups: list[str]) -> Any:
    """Compose the launch template, for what a node group cannot say."""
    name = _template_name(site, pool)
    template: dict[str, Any] = {
        "region": site.owner.spec.region,
        "name": name,
        "instanceType": pool.instance_type,
        "blockDeviceMappings": [{"deviceName": ROOT_DEVICE, "ebs": {"volumeSize": pool.disk_size_gb}}],
    }
    if pool.capacity_block is not None:
        target = {"capacityReservationId": pool.capacity_block.capacity_reservation_id}
        template["instanceMarketOptions"] = BLOCK_MARKET
        template["capacityReservationSpecification"] = {
            "capacityReservationPreference": BLOCK_ONLY,
            "capacityReservationTarget": target,
        }
    if pool.fabric is EKSFabric.EFA:
        template["networkInterfaces"] = fabric.interfaces(pool.instance_type, groups)
    return site.managed(key, LAUNCH_TEMPLATE, template, name)


def _group(site: Site[EKSCluster], pool: EKSNodePool, key: str, machine: dict[str, Any]) -> Any:
    spec = site.owner.spec
    is_gpu = pool.role is PoolRole.GPU and pool.gpu is not None
    node_labels = {labels.POOL: pool.name}
    if pool.gpu is not None and is_gpu:
        node_labels[labels.GPU] = pool.gpu.accelerator_type
    tainted = taints((GPU_TAINT, *pool.taints) if is_gpu else pool.taints)
    places = [zone.name for zone in zones(site) if zone.name in pool.zones or not pool.zones]
    return site.managed(
        key,
        NODE_GROUP,
        {
            "region": spec.region,
            "clusterNameRef": {"name": cluster_name(site)},
            "nodeRoleArnRef": {"name": site.name(NODE_ROLE)},
            "subnetIdRefs": [{"name": private_subnet(site, place)} for place in places],
            "amiType": spec.gpu_ami_type if is_gpu else spec.ami_type,
            **machine,
            "labels": node_labels,
            **({"taint": tainted} if tainted else {}),
            "scalingConfig": {
                "minSize": pool.min_node_count,
                "maxSize": max(pool.max_node_count, SMALLEST_MAXIMUM),
            },
        },
        managementPolicies=WITHOUT_LATE_INITIALIZATION,
        # The autoscaler changes it from then on.
        initProvider={"scalingConfig": {"desiredSize": pool.node_count}},
    )
