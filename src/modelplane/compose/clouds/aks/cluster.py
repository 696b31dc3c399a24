"""The cluster itself: its control plane, its network inside, and the system pool, which Azure has in it."""

from ipaddress import IPv4Network

from modelplane.api import labels
from modelplane.api.clouds.aks_cluster import AKSCluster
from modelplane.compose.clouds.aks.kinds import CLUSTER
from modelplane.compose.clouds.aks.network import group_name, in_group, in_subnet
from modelplane.compose.clouds.aks.pools import machine, size, system_of
from modelplane.compose.clouds.nodes import SYSTEM, WITHOUT_LATE_INITIALIZATION, at_first
from modelplane.compose.clouds.site import Parts, Site

IDENTITY = {"type": "SystemAssigned"}
"""Azure makes the identity with which the cluster changes its nodes and load balancers. Source: AKS, "Use a
managed identity"."""

NETWORK = {"networkPlugin": "azure", "networkPluginMode": "overlay"}
"""Pods have addresses of their own, and take none of the subnet. Source: AKS, "Azure CNI Overlay"."""

DNS = 10
"""The address of cluster DNS, counted from the start of the range of Services. Source: kubeadm,
``GetDNSIP``."""

SMALLEST_SERVICES = 28
"""The longest prefix of a range of Services that has that address. Source: Modelplane."""

NODES_GROUP = "nodes"
"""End of the name of the resource group with the nodes. Source: reference API, 4.3."""

ROTATION = "systemtmp"
"""Name of the pool that stands for the system pool while its nodes are replaced. Source: reference API,
4.3."""


def compose(site: Site[AKSCluster]) -> Parts:
    """Compose the cluster with its system pool."""
    spec = site.owner.spec
    pool = system_of(site.owner)
    pool_size, first_size = size(pool)
    name = group_name(site)
    yield site.managed(
        "cluster",
        CLUSTER,
        {
            **in_group(site),
            "location": spec.location,
            "kubernetesVersion": spec.kubernetes_version,
            "dnsPrefix": name,
            "nodeResourceGroup": "-".join((name, NODES_GROUP)),
            "identity": IDENTITY,
            "networkProfile": {
                **NETWORK,
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
        writeConnectionSecretToRef={"name": kubeconfig_secret(site)},
    )


def kubeconfig_secret(site: Site[AKSCluster]) -> str:
    """Return the name of the Secret with the kubeconfig."""
    return site.name("kubeconfig")
