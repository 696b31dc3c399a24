"""Clusters on Amazon Elastic Kubernetes Service: the cluster, its nodes and its file system for model caches.

The file system is an EFS file system with a mount target in each zone.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api import labels
from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.eks_cluster import EKSCluster, EKSFabric, EKSNodePool
from modelplane.api.clouds.serving_stack import VolumeBinding
from modelplane.api.fields.cluster.node_pools import FabricType, NodePool
from modelplane.api.fields.cluster.stack_components import ComponentName
from modelplane.api.inference_class import EKSRecipe
from modelplane.compose.clouds import eks_identity, eks_network
from modelplane.compose.clouds.eks_identity import CLUSTER_ROLE, NODE_ROLE, cluster_name
from modelplane.compose.clouds.eks_network import private_subnet, public_subnet, zones
from modelplane.compose.clouds.kinds import (
    EKS,
    EKS_ADDON,
    EKS_CLUSTER,
    EKS_CLUSTER_AUTH,
    EKS_FILE_SYSTEM,
    EKS_INGRESS_RULE,
    EKS_LAUNCH_TEMPLATE,
    EKS_MOUNT_TARGET,
    EKS_NODE_GROUP,
    EKS_SECURITY_GROUP,
)
from modelplane.compose.clouds.nodes import (
    WITHOUT_LATE_INITIALIZATION,
    label_and_taint,
    system_problems,
    taints,
    with_system,
)
from modelplane.compose.clouds.recipe import Inside, Recipe, describe_storage
from modelplane.compose.clouds.site import Parts, Site, Waiting

ACCESS = {"authenticationMode": "API_AND_CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": True}
"""The account that makes the cluster administers it. Source: Amazon EKS, "Access entries"."""

ENDPOINTS = {"endpointPrivateAccess": True, "endpointPublicAccess": True}
"""Nodes use the private endpoint, the control plane of the fleet the public one. Source: Amazon EKS, "Cluster
endpoint access"."""

ADDONS = ("vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent", "aws-efs-csi-driver")
"""Add-ons in the version that fits the cluster. Source: Amazon EKS, "Available add-ons"."""

ROOT_DEVICE = "/dev/xvda"
"""Root device of Amazon Linux. Source: Amazon EC2, "Device names"."""

FROM_BLOCK = {"capacityType": "CAPACITY_BLOCK"}
"""Source: Amazon EKS, "Capacity Blocks for ML"."""

FROM_SPOT = {"capacityType": "SPOT"}
"""Source: Amazon EKS, "Managed node group capacity types"."""

BLOCK_MARKET = {"marketType": "capacity-block"}
"""Source: Amazon EKS, "Capacity Blocks for ML"."""

BLOCK_ONLY = "capacity-reservations-only"
"""Nodes of no other capacity are started, which would be billed as well. Source: EC2 API,
``LaunchTemplateCapacityReservationSpecificationRequest``."""

SMALLEST_MAXIMUM = 1
"""EKS refuses a smaller ``maxSize``. Source: EKS API, ``NodegroupScalingConfig``."""

FILE_SYSTEM_SETTINGS = {"encrypted": True, "throughputMode": "elastic"}
"""Throughput that follows the load, which staging and starting models make. Source: Amazon EFS, "Throughput
modes"."""

NFS = {"ipProtocol": "tcp", "fromPort": 2049, "toPort": 2049}
"""Source: Amazon EFS, "Security groups"."""

STORAGE_PURPOSE = "Mount targets of the file system for ModelCaches."
"""Description of the security group. Source: Modelplane."""

BY_ACCESS_POINT = {"provisioningMode": "efs-ap", "directoryPerms": "700"}
"""Each volume is a folder with a user of its own. Source: aws-efs-csi-driver, "Dynamic provisioning"."""


def find_problems(site: Site[EKSCluster]) -> Iterator[str]:
    """Yield what is wrong with the settings of a cluster."""
    spec = site.owner.spec
    wrong = list(eks_network.find_subnet_problems(site))
    yield from wrong
    yield from system_problems(spec.system_pool)
    known = {zone.name for zone in eks_network.zones(site)} if not wrong else set()
    for pool in with_system(spec.node_pools, EKSNodePool, spec.system_pool):
        for zone in pool.zones:
            if not eks_network.is_in(zone, spec.region):
                yield f'pool "{pool.name}": zone {zone} is not in region {spec.region}'
            elif known and zone not in known:
                yield (
                    f'pool "{pool.name}": the cluster has no subnet in zone {zone}: add a range to '
                    "networking.subnetCidrs, or list the zones in networking.zones"
                )


def describe_pool(asked: NodePool, recipe: EKSRecipe) -> Mapping[str, Any]:
    """Return the fields of a pool that follow from its class, its capacity block and its fabric."""
    fields: dict[str, Any] = {
        "instanceType": recipe.instance_type,
        "diskSizeGb": recipe.disk_size_gb,
        "gpu": {"acceleratorType": recipe.accelerator.type},
    }
    if asked.capacity_block is not None:
        fields["capacityBlock"] = {"capacityReservationId": asked.capacity_block.capacity_reservation_id}
    if asked.build_interconnect().type is FabricType.EFA:
        fields["fabric"] = str(EKSFabric.EFA)
    return fields


def compose_cluster(site: Site[EKSCluster]) -> Parts:
    """Compose the cluster, the Secret with its kubeconfig, and its add-ons."""
    spec = site.owner.spec
    subnets = [name(site, zone.name) for name in (public_subnet, private_subnet) for zone in zones(site)]
    yield site.managed(
        "cluster",
        EKS_CLUSTER,
        {
            "region": spec.region,
            "version": spec.kubernetes_version,
            "roleArnRef": {"name": site.name(CLUSTER_ROLE)},
            "accessConfig": ACCESS,
            "vpcConfig": {"subnetIdRefs": [{"name": subnet} for subnet in subnets], **ENDPOINTS},
        },
        cluster_name(site),
    )
    in_cluster = {"region": spec.region, "clusterNameRef": {"name": cluster_name(site)}}
    yield site.managed(
        "cluster-auth",
        EKS_CLUSTER_AUTH,
        in_cluster,
        writeConnectionSecretToRef={"name": site.kubeconfig_secret},
    )
    for addon in ADDONS:
        yield site.managed(f"addon-{addon}", EKS_ADDON, {**in_cluster, "addonName": addon})


def compose_nodes(site: Site[EKSCluster]) -> Parts:
    """Compose every pool."""
    spec = site.owner.spec
    for pool in with_system(spec.node_pools, EKSNodePool, spec.system_pool):
        key = f"nodegroup-{pool.name}"
        if pool.capacity_block is None and pool.fabric is not EKSFabric.EFA:
            machine = {"instanceTypes": [pool.instance_type], "diskSize": pool.disk_size_gb}
            yield _group(site, pool, key, machine | _capacity(pool))
            continue
        template = f"launch-template-{pool.name}"
        groups = eks_network.security_groups(site)
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
        template["networkInterfaces"] = eks_network.interfaces(pool.instance_type, groups)
    return site.managed(key, EKS_LAUNCH_TEMPLATE, template, name)


def _group(site: Site[EKSCluster], pool: EKSNodePool, key: str, machine: dict[str, Any]) -> Any:
    spec = site.owner.spec
    node_labels, tainted = label_and_taint(pool)
    places = [zone.name for zone in zones(site) if zone.name in pool.zones or not pool.zones]
    return site.managed(
        key,
        EKS_NODE_GROUP,
        {
            "region": spec.region,
            "clusterNameRef": {"name": cluster_name(site)},
            "nodeRoleArnRef": {"name": site.name(NODE_ROLE)},
            "subnetIdRefs": [{"name": private_subnet(site, place)} for place in places],
            "amiType": spec.gpu_ami_type if labels.GPU in node_labels else spec.ami_type,
            **machine,
            "labels": node_labels,
            **({"taint": taints(tainted)} if tainted else {}),
            "scalingConfig": {
                "minSize": pool.min_node_count,
                "maxSize": max(pool.max_node_count, SMALLEST_MAXIMUM),
            },
        },
        managementPolicies=WITHOUT_LATE_INITIALIZATION,
        # The autoscaler changes it from then on.
        initProvider={"scalingConfig": {"desiredSize": pool.node_count}},
    )


def find_file_system(site: Site[EKSCluster]) -> str:
    """Return the id of the file system, as AWS reports it or as it was known; empty until it is."""
    cache = site.owner.status.cache
    return site.text("efs", "id") or (cache.file_system if cache else None) or ""


def compose_storage(site: Site[EKSCluster]) -> Parts:
    """Compose the file system, and its access from the VPC."""
    spec = site.owner.spec
    region = {"region": spec.region}
    yield site.managed("efs", EKS_FILE_SYSTEM, {**region, **FILE_SYSTEM_SETTINGS})
    yield site.managed(
        "efs-security-group",
        EKS_SECURITY_GROUP,
        {
            **region,
            "name": site.name("efs-security-group"),
            "description": STORAGE_PURPOSE,
            "vpcIdRef": {"name": site.name("vpc")},
        },
    )
    yield site.managed(
        "efs-ingress",
        EKS_INGRESS_RULE,
        {
            **region,
            **NFS,
            "securityGroupIdRef": {"name": site.name("efs-security-group")},
            "cidrIpv4": spec.networking.vpc_cidr,
        },
    )
    for zone in zones(site):
        yield site.managed(
            f"efs-mount-target-{zone.index}",
            EKS_MOUNT_TARGET,
            {
                **region,
                "fileSystemIdRef": {"name": site.name("efs")},
                "subnetIdRef": {"name": private_subnet(site, zone.name)},
                "securityGroupsRefs": [{"name": site.name("efs-security-group")}],
            },
        )


def describe_inside(site: Site[EKSCluster]) -> Inside:
    """Return the components, and the StorageClass once the id of the file system is known."""
    discovery = {"clusterName": cluster_name(site)}
    components: dict[ComponentName, dict[str, Any]] = {
        ComponentName.CLUSTER_AUTOSCALER: {"autoDiscovery": discovery, "awsRegion": site.owner.spec.region}
    }
    if eks_network.has_adapters(site):
        components[ComponentName.EFA_DRA_DRIVER] = {}
    file_system = find_file_system(site)
    if not file_system:
        return Inside(components)
    parameters = {**BY_ACCESS_POINT, "fileSystemId": file_system}
    return Inside(components, describe_storage(Cloud.EKS, parameters, VolumeBinding.IMMEDIATE))


RECIPE = Recipe(
    source=Source.EKS,
    title=EKS.title,
    package="aws",
    type=EKSCluster,
    providers=EKS.providers,
    account=EKS.account,
    parts=(
        eks_network.compose_network,
        eks_identity.compose_identity,
        compose_cluster,
        eks_network.compose_fabric,
        compose_nodes,
        compose_storage,
    ),
    problems=find_problems,
    pool=describe_pool,
    fabrics=frozenset({FabricType.EFA}),
    inside=describe_inside,
    file_system=find_file_system,
)
"""Its row in `table.py`."""
