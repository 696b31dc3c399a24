"""Clusters on Azure Kubernetes Service: the cluster with its system pool, its network, nodes and storage.

AKS scales pools itself.
"""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any

from modelplane.api import labels
from modelplane.api.clouds.aks_cluster import AKSCluster, AKSFabric, AKSNodePool
from modelplane.api.clouds.cloud_cluster import PoolRole
from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.serving_stack import VolumeBinding
from modelplane.api.fields.cluster.node_pools import SPOT_TAINT, FabricType, NodePool
from modelplane.api.fields.cluster.stack_components import ComponentName
from modelplane.api.inference_class import AKSRecipe
from modelplane.compose.clouds import address_ranges
from modelplane.compose.clouds.kinds import (
    AKS,
    AKS_CLUSTER,
    AKS_NODE_POOL,
    AKS_RESOURCE_GROUP,
    AKS_SUBNET,
    AKS_VIRTUAL_NETWORK,
)
from modelplane.compose.clouds.nodes import (
    SYSTEM,
    WITHOUT_LATE_INITIALIZATION,
    at_first,
    label_and_taint,
    list_user_pools,
    system_pool,
    system_problems,
)
from modelplane.compose.clouds.recipe import Inside, Recipe, describe_storage
from modelplane.compose.clouds.site import Parts, Site, Spec

LONGEST_NAME = 54
"""Characters of the DNS prefix, after which the cluster and its group are also named. Source: AKS API,
``ManagedClusterProperties.dnsPrefix``."""

IDENTITY = {"type": "SystemAssigned"}
"""Azure makes the identity with which the cluster changes its nodes and load balancers. Source: AKS, "Use a
managed identity"."""

POD_NETWORK = {"networkPlugin": "azure", "networkPluginMode": "overlay"}
"""Pods have addresses of their own, and take none of the subnet. Source: AKS, "Azure CNI Overlay"."""

DNS = 10
"""The address of cluster DNS, counted from the start of the range of Services. Source: kubeadm,
``GetDNSIP``."""

SMALLEST_SERVICES = 28
"""The longest prefix of a range of Services that has that address. Source: Modelplane."""

NODES_GROUP = "nodes"
"""End of the name of the resource group with the nodes. Source: Modelplane."""

ROTATION = "systemtmp"
"""Name of the pool that stands for the system pool while its nodes are replaced. Source: Modelplane."""

FEWEST_SYSTEM_NODES = 1
"""Source: AKS, "System node pools"."""

MODE = "User"
"""The cluster does not depend on such a pool, which may be empty. Source: AKS, "System node pools"."""

SPOT = {"priority": "Spot", "evictionPolicy": "Delete", "spotMaxPrice": -1}
"""Nodes at no more than the price of others, which are deleted when they are taken back: stopped ones would
count against the quota. Source: AKS, "Add an Azure Spot node pool to an Azure Kubernetes Service (AKS)
cluster"."""

MOUNT_OPTIONS = (
    "dir_mode=0777",
    "file_mode=0777",
    "uid=0",
    "gid=0",
    "mfsymlinks",
    "cache=strict",
    "actimeo=30",
    "nosharesock",
)
"""Every user may write, and links work, as caches need it. Source: AKS, "Azure Files", mount options."""


def find_problems(site: Site[AKSCluster]) -> Iterator[str]:
    """Yield what is wrong with the settings of a cluster."""
    spec = site.owner.spec
    yield from _range_problems(site)
    yield from system_problems(spec.system_pool)
    for pool in spec.node_pools:
        if pool.name == SYSTEM and pool.role is PoolRole.GPU:
            yield f'pool name "{SYSTEM}" is reserved for system pods: give the GPU pool another name'
        elif pool.name == SYSTEM and pool.taints:
            yield f'pool "{SYSTEM}" cannot have taints: remove them'
        for zone in pool.zones:
            if not (zone.isascii() and zone.isdigit()):
                yield f'pool "{pool.name}": zone {zone} is not a number: Azure numbers zones, such as "1"'


def _range_problems(site: Site[AKSCluster]) -> Iterator[str]:
    ranges = site.owner.spec.networking
    whole = {"vnetCidr": ranges.vnet_cidr}
    wrong = list(
        address_ranges.problems({**whole, "podCidr": ranges.pod_cidr, "serviceCidr": ranges.service_cidr})
    )
    yield from wrong
    if wrong:
        return
    yield from address_ranges.problems({"subnetCidr": ranges.subnet_cidr}, within=whole)
    if IPv4Network(ranges.service_cidr).prefixlen > SMALLEST_SERVICES:
        smallest = SMALLEST_SERVICES
        yield f"serviceCidr {ranges.service_cidr} is too small for cluster DNS: use /{smallest} or larger"


def describe_pool(asked: NodePool, recipe: AKSRecipe) -> Mapping[str, Any]:
    """Return the fields of a pool that follow from its class and its fabric."""
    fields: dict[str, Any] = {
        "vmSize": recipe.vm_size,
        "diskSizeGb": recipe.disk_size_gb,
        "gpu": {"acceleratorType": recipe.accelerator.type},
    }
    if asked.build_interconnect().type is FabricType.INFINIBAND:
        fields["fabric"] = str(AKSFabric.INFINIBAND)
    return fields


def compose_network(site: Site[AKSCluster]) -> Parts:
    """Compose the resource group, the virtual network and the subnet of the nodes."""
    spec = site.owner.spec
    yield site.managed("resource-group", AKS_RESOURCE_GROUP, {"location": spec.location}, group_name(site))
    yield site.managed(
        "vnet",
        AKS_VIRTUAL_NETWORK,
        {**in_group(site), "location": spec.location, "addressSpace": [spec.networking.vnet_cidr]},
    )
    yield site.managed(
        "subnet",
        AKS_SUBNET,
        {
            **in_group(site),
            "virtualNetworkNameRef": {"name": site.name("vnet")},
            "addressPrefixes": [spec.networking.subnet_cidr],
        },
    )


def group_name(site: Site[AKSCluster]) -> str:
    """Return the name of the resource group and of the cluster, which is unique in the subscription."""
    return site.unique_name("aks", limit=LONGEST_NAME)


def in_group(site: Site[AKSCluster]) -> dict[str, Any]:
    """Return the field that names the resource group."""
    return {"resourceGroupNameRef": {"name": group_name(site)}}


def in_subnet(site: Site[AKSCluster]) -> dict[str, Any]:
    """Return the field that names the subnet of nodes."""
    return {"vnetSubnetIdRef": {"name": site.name("subnet")}}


def compose_cluster(site: Site[AKSCluster]) -> Parts:
    """Compose the cluster with its system pool."""
    spec = site.owner.spec
    pool = system_pool(spec.node_pools, AKSNodePool, spec.system_pool)
    pool_size, first_size = size(pool)
    name = group_name(site)
    yield site.managed(
        "cluster",
        AKS_CLUSTER,
        {
            **in_group(site),
            "location": spec.location,
            "kubernetesVersion": spec.kubernetes_version,
            "dnsPrefix": name,
            "nodeResourceGroup": "-".join((name, NODES_GROUP)),
            "identity": IDENTITY,
            "networkProfile": {
                **POD_NETWORK,
                "podCidr": spec.networking.pod_cidr,
                "serviceCidr": spec.networking.service_cidr,
                "dnsServiceIp": str(IPv4Network(spec.networking.service_cidr)[DNS]),
            },
            "defaultNodePool": {
                **in_subnet(site),
                **machine(pool),
                **pool_size,
                "name": SYSTEM,
                "nodeLabels": {labels.POOL: SYSTEM},
                "temporaryNameForRotation": ROTATION,
            },
        },
        name,
        managementPolicies=WITHOUT_LATE_INITIALIZATION,
        **at_first({"defaultNodePool": first_size} if first_size else {}),
        writeConnectionSecretToRef={"name": site.kubeconfig_secret},
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


def compose_nodes(site: Site[AKSCluster]) -> Parts:
    """Compose every pool."""
    for pool in list_user_pools(site.owner.spec.node_pools):
        pool_size, first_size = size(pool)
        node_labels, tainted = label_and_taint(pool)
        node: dict[str, Any] = {"nodeLabels": node_labels}
        if labels.GPU in node_labels:
            node["gpuDriver"] = str(site.owner.spec.gpu_driver)
        if pool.spot:
            # AKS adds both; without them here, the provider would take them away.
            node_labels[SPOT_TAINT.key] = SPOT_TAINT.value
            tainted += () if SPOT_TAINT in pool.taints else (SPOT_TAINT,)
            node |= SPOT
        if tainted:
            node["nodeTaints"] = [f"{taint.key}={taint.value}:{taint.effect}" for taint in tainted]
        yield site.managed(
            f"nodepool-{pool.name}",
            AKS_NODE_POOL,
            {
                **in_subnet(site),
                "kubernetesClusterIdRef": {"name": group_name(site)},
                "mode": MODE,
                **machine(pool),
                **pool_size,
                **node,
            },
            external_name=pool.name,
            managementPolicies=WITHOUT_LATE_INITIALIZATION,
            **at_first(first_size),
        )


def describe_inside(site: Site[AKSCluster]) -> Inside:
    """Return the StorageClass, and NVIDIA's network operator if a pool has InfiniBand."""
    spec = site.owner.spec
    shares = describe_storage(
        Cloud.AKS,
        {"skuName": spec.file_shares.sku_name},
        VolumeBinding.WAIT_FOR_FIRST_CONSUMER,
        mount_options=MOUNT_OPTIONS,
        allow_volume_expansion=True,
    )
    components: dict[ComponentName, dict[str, Any]] = {}
    if any(pool.fabric is AKSFabric.INFINIBAND for pool in spec.node_pools):
        components[ComponentName.NETWORK_OPERATOR] = {}
    return Inside(components, shares)


RECIPE = Recipe(
    source=Source.AKS,
    title=AKS.title,
    package="azure",
    type=AKSCluster,
    providers=AKS.providers,
    account=AKS.account,
    parts=(compose_network, compose_cluster, compose_nodes),
    problems=find_problems,
    pool=describe_pool,
    fabrics=frozenset({FabricType.INFINIBAND}),
    inside=describe_inside,
)
"""Its row in `table.py`."""
