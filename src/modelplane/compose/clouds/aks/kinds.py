"""Managed resources of a cluster on Azure Kubernetes Service.

Source: provider-upjet-azure v2.6.0, ``package/crds``.
"""

from modelplane.compose.clouds.provider import CONTRIB, Account, ManagedKind, Provider

TITLE = "Microsoft Azure"
"""Name of the cloud in sentences."""

_AZURE = "azure.m.upbound.io"
_CONTAINER_SERVICE = "containerservice.azure.m.upbound.io"
_NETWORK = "network.azure.m.upbound.io"

RESOURCE_GROUP = ManagedKind(_AZURE, "ResourceGroup", "resourcegroups")
CLUSTER = ManagedKind(_CONTAINER_SERVICE, "KubernetesCluster", "kubernetesclusters")
NODE_POOL = ManagedKind(_CONTAINER_SERVICE, "KubernetesClusterNodePool", "kubernetesclusternodepools")
VIRTUAL_NETWORK = ManagedKind(_NETWORK, "VirtualNetwork", "virtualnetworks")
SUBNET = ManagedKind(_NETWORK, "Subnet", "subnets")

_VERSION = "2.6.0"

PROVIDERS = (
    Provider(f"{CONTRIB}/provider-family-azure", _VERSION, (RESOURCE_GROUP,)),
    Provider(f"{CONTRIB}/provider-azure-containerservice", _VERSION, (NODE_POOL, CLUSTER)),
    Provider(f"{CONTRIB}/provider-azure-network", _VERSION, (VIRTUAL_NETWORK, SUBNET)),
)

ACCOUNT = Account(_AZURE)
