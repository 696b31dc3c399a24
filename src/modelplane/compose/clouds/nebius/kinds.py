"""Managed resources of a cluster on Nebius Managed Kubernetes.

Source: provider-upjet-nebius v1.0.1, ``package/crds``.
"""

from modelplane.compose.clouds.provider import UPBOUND, Account, ManagedKind, Provider

TITLE = "Nebius"
"""Name of the cloud in sentences."""

_COMPUTE = "compute.nebius.m.upbound.io"
_MK8S = "mk8s.nebius.m.upbound.io"
_VPC = "vpc.nebius.m.upbound.io"

GPU_CLUSTER = ManagedKind(_COMPUTE, "GpuCluster", "gpuclusters")
FILE_SYSTEM = ManagedKind(_COMPUTE, "Filesystem", "filesystems")
CLUSTER = ManagedKind(_MK8S, "Cluster", "clusters")
NODE_GROUP = ManagedKind(_MK8S, "NodeGroup", "nodegroups")
NETWORK = ManagedKind(_VPC, "Network", "networks")
SUBNET = ManagedKind(_VPC, "Subnet", "subnets")

PROVIDERS = (
    Provider(
        f"{UPBOUND}/provider-nebius",
        "1.0.1",
        (GPU_CLUSTER, FILE_SYSTEM, CLUSTER, NODE_GROUP, NETWORK, SUBNET),
    ),
)

ACCOUNT = Account("nebius.m.upbound.io")
