"""The cluster itself: the control plane, the kubeconfig, and the add-ons of EKS."""

from modelplane.api.clouds.eks_cluster import EKSCluster
from modelplane.compose.clouds.eks.identity import CLUSTER_ROLE, cluster_name
from modelplane.compose.clouds.eks.kinds import ADDON, CLUSTER, CLUSTER_AUTH
from modelplane.compose.clouds.eks.network import private_subnet, public_subnet
from modelplane.compose.clouds.eks.subnets import zones
from modelplane.compose.clouds.site import Parts, Site

ACCESS = {"authenticationMode": "API_AND_CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": True}
"""The account that makes the cluster administers it. Source: Amazon EKS, "Access entries"."""

ENDPOINTS = {"endpointPrivateAccess": True, "endpointPublicAccess": True}
"""Nodes use the private endpoint, the control plane of the fleet the public one. Source: Amazon EKS, "Cluster
endpoint access"."""

ADDONS = ("vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent", "aws-efs-csi-driver")
"""Add-ons in the version that fits the cluster. Source: Amazon EKS, "Available add-ons"."""


def compose(site: Site[EKSCluster]) -> Parts:
    """Compose the cluster, the Secret with its kubeconfig, and its add-ons."""
    spec = site.owner.spec
    subnets = [name(site, zone.name) for name in (public_subnet, private_subnet) for zone in zones(site)]
    yield site.managed(
        "cluster",
        CLUSTER,
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
        CLUSTER_AUTH,
        in_cluster,
        writeConnectionSecretToRef={"name": kubeconfig_secret(site)},
    )
    for addon in ADDONS:
        yield site.managed(f"addon-{addon}", ADDON, {**in_cluster, "addonName": addon})


def kubeconfig_secret(site: Site[EKSCluster]) -> str:
    """Return the name of the Secret with the kubeconfig."""
    return site.name("kubeconfig")
