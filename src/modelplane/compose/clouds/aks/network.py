"""The resource group of an AKS cluster, and the network in it: a virtual network with one subnet."""

from typing import Any

from modelplane.api.clouds.aks_cluster import AKSCluster
from modelplane.compose.clouds.aks.kinds import RESOURCE_GROUP, SUBNET, VIRTUAL_NETWORK
from modelplane.compose.clouds.site import Parts, Site

LONGEST_NAME = 54
"""Characters of the DNS prefix, after which the cluster and its group are also named. Source: AKS API,
``ManagedClusterProperties.dnsPrefix``."""


def compose(site: Site[AKSCluster]) -> Parts:
    """Compose the resource group, the virtual network and the subnet of the nodes."""
    spec = site.owner.spec
    yield site.managed("resource-group", RESOURCE_GROUP, {"location": spec.location}, group_name(site))
    yield site.managed(
        "vnet",
        VIRTUAL_NETWORK,
        {**in_group(site), "location": spec.location, "addressSpace": [spec.networking.vnet_cidr]},
    )
    yield site.managed(
        "subnet",
        SUBNET,
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
