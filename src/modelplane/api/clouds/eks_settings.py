"""Settings of a cluster on Amazon EKS: the same for an InferenceCluster and its EKSCluster."""

from typing import Annotated

from modelplane.api.clouds.cloud_settings import CloudCredentials, DiskSizeGb, KubernetesVersion
from modelplane.api.fields.cluster.node_pools import MAX_CLOUD_POOL_NODES, ZoneName
from modelplane.api.meta import Model
from modelplane.api.schema.fields import CIDR, about

_Range = Annotated[str, about("Range of a subnet.", max_length=18, pattern=CIDR)]
_AmiType = Annotated[
    str, about("AMI type of an EKS node group.", min_length=1, max_length=63, pattern="^[A-Za-z0-9_]+$")
]


class EKSNetworking(Model):
    """Address ranges of the cluster's network."""

    vpc_cidr: Annotated[str, about("Address range of the VPC.", max_length=18, pattern=CIDR)] = "10.0.0.0/16"
    subnet_cidrs: Annotated[
        tuple[_Range, ...],
        about(
            "Address ranges of the public subnets, one for each availability zone, in order.",
            min_length=2,
            max_length=6,
            atomic=True,
        ),
    ] = ("10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20")
    private_subnet_cidrs: Annotated[
        tuple[_Range, ...],
        about(
            "Address ranges of the private subnets, one for each entry of subnetCidrs. Default: "
            "the first free ranges of the same sizes in the VPC.",
            max_length=6,
            atomic=True,
        ),
    ] = ()
    zones: Annotated[
        tuple[ZoneName, ...],
        about(
            "Availability zones of the subnets, one for each entry of subnetCidrs. Default: "
            "zones a, b, c and so on of the region. Some accounts don't have all of these zones.",
            max_length=6,
            atomic=True,
        ),
    ] = ()


class EKSSystemPool(Model):
    """Nodes for system components. Engines don't run on these nodes."""

    instance_type: Annotated[str, about("EC2 instance type.", min_length=1, max_length=63)] = "m6i.xlarge"
    disk_size_gb: DiskSizeGb = 100
    min_node_count: Annotated[int, about("Minimum number of nodes.", ge=1, le=MAX_CLOUD_POOL_NODES)] = 1
    max_node_count: Annotated[int, about("Maximum number of nodes.", ge=1, le=MAX_CLOUD_POOL_NODES)] = 2


class EKSSettings(Model):
    """Settings of an Amazon EKS cluster."""

    region: Annotated[str, about("Region, such as us-west-2.", min_length=1, max_length=32)]
    kubernetes_version: KubernetesVersion = "1.36"
    credentials: CloudCredentials | None = None
    networking: Annotated[EKSNetworking, about("Address ranges of the cluster's network.")] = EKSNetworking()
    system_pool: Annotated[
        EKSSystemPool, about("Nodes for system components. Engines don't run on these nodes.")
    ] = EKSSystemPool()
    ami_type: Annotated[_AmiType, about("AMI type of nodes without GPUs.")] = "AL2023_x86_64_STANDARD"
    gpu_ami_type: Annotated[_AmiType, about("AMI type of GPU nodes.")] = "AL2023_x86_64_NVIDIA"
