"""Kinds of managed resources of every cloud, and the packages for Crossplane that bring and make them.

Watches, permissions, activation policies, the packages of a cloud and the condition that names a missing one
follow from these values.
"""

from typing import Final, NamedTuple

CONTRIB: Final = "xpkg.crossplane.io/crossplane-contrib"
"""Registry of the community's providers, in every version and without an account."""

UPBOUND: Final = "xpkg.upbound.io/upbound"
"""Registry of Upbound's own providers. It gives out the latest version without an account."""


class ManagedKind(NamedTuple):
    """A kind of managed resources."""

    group: str
    kind: str
    plural: str
    version: str = "v1beta1"

    @property
    def api_version(self) -> str:
        """Its ``apiVersion`` in manifests."""
        return f"{self.group}/{self.version}"

    @property
    def definition(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"


class Provider(NamedTuple):
    """A provider's package."""

    package: str
    version: str
    """The earliest version that has every field that is composed."""
    kinds: tuple[ManagedKind, ...] = ()
    """The kinds that are composed, the smallest definition first: it stands for the package."""


class Account(NamedTuple):
    """The kinds that hold the credentials of a cloud: ``ProviderConfig`` and ``ClusterProviderConfig``."""

    group: str
    version: str = "v1beta1"

    @property
    def api_version(self) -> str:
        """Their ``apiVersion`` in manifests."""
        return f"{self.group}/{self.version}"


class CloudKinds(NamedTuple):
    """A cloud, its providers, and the kind of account that they use."""

    title: str
    """Name of the cloud in sentences."""
    providers: tuple[Provider, ...]
    account: Account


_GKE_CLOUD_PLATFORM = "cloudplatform.gcp.m.upbound.io"
_GKE_COMPUTE = "compute.gcp.m.upbound.io"
_GKE_CONTAINER = "container.gcp.m.upbound.io"

GKE_PROJECT_SERVICE = ManagedKind(_GKE_CLOUD_PLATFORM, "ProjectService", "projectservices")
GKE_SERVICE_ACCOUNT = ManagedKind(_GKE_CLOUD_PLATFORM, "ServiceAccount", "serviceaccounts")
GKE_SERVICE_ACCOUNT_KEY = ManagedKind(_GKE_CLOUD_PLATFORM, "ServiceAccountKey", "serviceaccountkeys")
GKE_PROJECT_IAM_MEMBER = ManagedKind(_GKE_CLOUD_PLATFORM, "ProjectIAMMember", "projectiammembers")
GKE_NETWORK = ManagedKind(_GKE_COMPUTE, "Network", "networks")
GKE_SUBNETWORK = ManagedKind(_GKE_COMPUTE, "Subnetwork", "subnetworks")
GKE_CLUSTER = ManagedKind(_GKE_CONTAINER, "Cluster", "clusters")
GKE_NODE_POOL = ManagedKind(_GKE_CONTAINER, "NodePool", "nodepools")
_GKE_VERSION = "2.6.0"

GKE = CloudKinds(
    "Google Cloud",
    (
        Provider(f"{CONTRIB}/provider-family-gcp", _GKE_VERSION),
        Provider(
            f"{CONTRIB}/provider-gcp-cloudplatform",
            _GKE_VERSION,
            (GKE_PROJECT_SERVICE, GKE_SERVICE_ACCOUNT, GKE_SERVICE_ACCOUNT_KEY, GKE_PROJECT_IAM_MEMBER),
        ),
        Provider(f"{CONTRIB}/provider-gcp-compute", _GKE_VERSION, (GKE_NETWORK, GKE_SUBNETWORK)),
        Provider(f"{CONTRIB}/provider-gcp-container", _GKE_VERSION, (GKE_NODE_POOL, GKE_CLUSTER)),
    ),
    Account("gcp.m.upbound.io"),
)
"""Source: provider-upjet-gcp v2.6.0, ``package/crds``."""

_EKS_EC2 = "ec2.aws.m.upbound.io"
_EKS_EFS = "efs.aws.m.upbound.io"
_EKS_EKS = "eks.aws.m.upbound.io"
_EKS_IAM = "iam.aws.m.upbound.io"

EKS_INTERNET_GATEWAY = ManagedKind(_EKS_EC2, "InternetGateway", "internetgateways")
EKS_VPC = ManagedKind(_EKS_EC2, "VPC", "vpcs")
EKS_SUBNET = ManagedKind(_EKS_EC2, "Subnet", "subnets")
EKS_EIP = ManagedKind(_EKS_EC2, "EIP", "eips")
EKS_NAT_GATEWAY = ManagedKind(_EKS_EC2, "NATGateway", "natgateways")
EKS_ROUTE_TABLE = ManagedKind(_EKS_EC2, "RouteTable", "routetables")
EKS_ROUTE = ManagedKind(_EKS_EC2, "Route", "routes")
EKS_ROUTE_TABLE_ASSOCIATION = ManagedKind(_EKS_EC2, "RouteTableAssociation", "routetableassociations")
EKS_SECURITY_GROUP = ManagedKind(_EKS_EC2, "SecurityGroup", "securitygroups")
EKS_INGRESS_RULE = ManagedKind(_EKS_EC2, "SecurityGroupIngressRule", "securitygroupingressrules")
EKS_EGRESS_RULE = ManagedKind(_EKS_EC2, "SecurityGroupEgressRule", "securitygroupegressrules")
EKS_LAUNCH_TEMPLATE = ManagedKind(_EKS_EC2, "LaunchTemplate", "launchtemplates")
EKS_FILE_SYSTEM = ManagedKind(_EKS_EFS, "FileSystem", "filesystems")
EKS_MOUNT_TARGET = ManagedKind(_EKS_EFS, "MountTarget", "mounttargets")
EKS_CLUSTER_AUTH = ManagedKind(_EKS_EKS, "ClusterAuth", "clusterauths")
EKS_CLUSTER = ManagedKind(_EKS_EKS, "Cluster", "clusters")
EKS_NODE_GROUP = ManagedKind(_EKS_EKS, "NodeGroup", "nodegroups")
EKS_ADDON = ManagedKind(_EKS_EKS, "Addon", "addons")
EKS_POD_IDENTITY = ManagedKind(_EKS_EKS, "PodIdentityAssociation", "podidentityassociations")
EKS_POLICY = ManagedKind(_EKS_IAM, "Policy", "policies")
EKS_ROLE = ManagedKind(_EKS_IAM, "Role", "roles")
EKS_ATTACHMENT = ManagedKind(_EKS_IAM, "RolePolicyAttachment", "rolepolicyattachments")
_EKS_VERSION = "2.6.0"

EKS = CloudKinds(
    "Amazon Web Services",
    (
        Provider(
            f"{CONTRIB}/provider-aws-ec2",
            _EKS_VERSION,
            (
                EKS_INTERNET_GATEWAY,
                EKS_VPC,
                EKS_SUBNET,
                EKS_EIP,
                EKS_NAT_GATEWAY,
                EKS_ROUTE_TABLE,
                EKS_ROUTE,
                EKS_ROUTE_TABLE_ASSOCIATION,
                EKS_SECURITY_GROUP,
                EKS_INGRESS_RULE,
                EKS_EGRESS_RULE,
                EKS_LAUNCH_TEMPLATE,
            ),
        ),
        Provider(f"{CONTRIB}/provider-aws-efs", _EKS_VERSION, (EKS_FILE_SYSTEM, EKS_MOUNT_TARGET)),
        Provider(
            f"{CONTRIB}/provider-aws-eks",
            _EKS_VERSION,
            (EKS_CLUSTER_AUTH, EKS_CLUSTER, EKS_NODE_GROUP, EKS_ADDON, EKS_POD_IDENTITY),
        ),
        Provider(f"{CONTRIB}/provider-aws-iam", _EKS_VERSION, (EKS_POLICY, EKS_ROLE, EKS_ATTACHMENT)),
    ),
    Account("aws.m.upbound.io"),
)
"""Source: provider-upjet-aws v2.6.0, ``package/crds``."""

_AKS_AZURE = "azure.m.upbound.io"
_AKS_CONTAINER_SERVICE = "containerservice.azure.m.upbound.io"
_AKS_NETWORK = "network.azure.m.upbound.io"

AKS_RESOURCE_GROUP = ManagedKind(_AKS_AZURE, "ResourceGroup", "resourcegroups")
AKS_CLUSTER = ManagedKind(_AKS_CONTAINER_SERVICE, "KubernetesCluster", "kubernetesclusters")
AKS_NODE_POOL = ManagedKind(_AKS_CONTAINER_SERVICE, "KubernetesClusterNodePool", "kubernetesclusternodepools")
AKS_VIRTUAL_NETWORK = ManagedKind(_AKS_NETWORK, "VirtualNetwork", "virtualnetworks")
AKS_SUBNET = ManagedKind(_AKS_NETWORK, "Subnet", "subnets")
_AKS_VERSION = "2.6.0"

AKS = CloudKinds(
    "Microsoft Azure",
    (
        Provider(f"{CONTRIB}/provider-family-azure", _AKS_VERSION, (AKS_RESOURCE_GROUP,)),
        Provider(f"{CONTRIB}/provider-azure-containerservice", _AKS_VERSION, (AKS_NODE_POOL, AKS_CLUSTER)),
        Provider(f"{CONTRIB}/provider-azure-network", _AKS_VERSION, (AKS_VIRTUAL_NETWORK, AKS_SUBNET)),
    ),
    Account(_AKS_AZURE),
)
"""Source: provider-upjet-azure v2.6.0, ``package/crds``."""

_NEBIUS_COMPUTE = "compute.nebius.m.upbound.io"
_NEBIUS_MK8S = "mk8s.nebius.m.upbound.io"
_NEBIUS_VPC = "vpc.nebius.m.upbound.io"

NEBIUS_GPU_CLUSTER = ManagedKind(_NEBIUS_COMPUTE, "GpuCluster", "gpuclusters")
NEBIUS_FILE_SYSTEM = ManagedKind(_NEBIUS_COMPUTE, "Filesystem", "filesystems")
NEBIUS_CLUSTER = ManagedKind(_NEBIUS_MK8S, "Cluster", "clusters")
NEBIUS_NODE_GROUP = ManagedKind(_NEBIUS_MK8S, "NodeGroup", "nodegroups")
NEBIUS_NETWORK = ManagedKind(_NEBIUS_VPC, "Network", "networks")
NEBIUS_SUBNET = ManagedKind(_NEBIUS_VPC, "Subnet", "subnets")

NEBIUS = CloudKinds(
    "Nebius",
    (
        Provider(
            f"{UPBOUND}/provider-nebius",
            "1.0.1",
            (
                NEBIUS_GPU_CLUSTER,
                NEBIUS_FILE_SYSTEM,
                NEBIUS_CLUSTER,
                NEBIUS_NODE_GROUP,
                NEBIUS_NETWORK,
                NEBIUS_SUBNET,
            ),
        ),
    ),
    Account("nebius.m.upbound.io"),
)
"""Source: provider-upjet-nebius v1.0.1, ``package/crds``."""

_VULTR_VKE = "vke.vultr.m.upbound.io"

VULTR_NODE_POOL = ManagedKind(_VULTR_VKE, "KubernetesNodePool", "kubernetesnodepools")
VULTR_CLUSTER = ManagedKind(_VULTR_VKE, "Kubernetes", "kubernetes")

VULTR = CloudKinds(
    "Vultr",
    (Provider(f"{UPBOUND}/provider-vultr", "1.0.0", (VULTR_NODE_POOL, VULTR_CLUSTER)),),
    Account("vultr.m.upbound.io"),
)
"""Source: provider-upjet-vultr v1.0.0, ``package/crds``."""

_CLOUDS = (
    GKE,
    EKS,
    AKS,
    NEBIUS,
    VULTR,
)
"""Every cloud: one row each."""

MANAGED: dict[str, tuple[ManagedKind, ...]] = {
    f"Clusters on {cloud.title} consist of them.": tuple(
        kind for provider in cloud.providers for kind in provider.kinds
    )
    for cloud in _CLOUDS
}
"""The kinds, by the reason for the permission to write them."""
