"""EKSCluster: a cluster on Amazon Elastic Kubernetes Service, with its network and node groups."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.cloud_cluster import (
    GPU_RULE,
    NAME_RULE,
    POOLS,
    ZONES_RULE,
    CachingClusterStatus,
    GPUs,
    MaxNodeCount,
    MinNodeCount,
    NodeCount,
    NodePoolRole,
    PoolName,
    Zones,
)
from modelplane.api.cluster_origin import CloudCredentials, KubernetesVersion
from modelplane.api.fields import CIDR, about
from modelplane.api.inference_class import DiskSizeGb
from modelplane.api.meta import Model, ObjectMeta
from modelplane.api.node_pools import BOUNDS_RULE, CapacityBlock


class EKSFabric(StrEnum):
    """The network between the nodes of a pool."""

    NONE = "None"
    EFA = "EFA"


class EKSNetworking(Model):
    """Address ranges of the cluster's network."""

    vpc_cidr: Annotated[str, about("Range of the VPC.", max_length=18, pattern=CIDR)] = "10.0.0.0/16"
    subnet_cidrs: Annotated[
        tuple[Annotated[str, about("Range of a subnet.", max_length=18, pattern=CIDR)], ...],
        about(
            "Ranges of the public subnets, one for each availability zone from the first. The private "
            "subnets follow from them.",
            min_length=2,
            max_length=6,
            atomic=True,
        ),
    ] = ("10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20")


class EKSNodePool(Model):
    """Identical nodes."""

    __rules__ = (GPU_RULE, ZONES_RULE, BOUNDS_RULE)

    name: PoolName
    role: NodePoolRole
    instance_type: Annotated[
        str, about("EC2 instance type, which determines the GPU.", min_length=1, max_length=63)
    ]
    disk_size_gb: DiskSizeGb = 100
    node_count: NodeCount = 1
    min_node_count: MinNodeCount = 0
    max_node_count: MaxNodeCount = 8
    gpu: Annotated[GPUs, about("The GPUs of each node. Required for role GPU.")] | None = None
    capacity_block: Annotated[CapacityBlock, about("AWS Capacity Block that backs the pool.")] | None = None
    zones: Zones = ()
    fabric: Annotated[EKSFabric, about("EFA: nodes get Elastic Fabric Adapters.")] = EKSFabric.NONE


class EKSClusterSpec(Model):
    """The cluster to create."""

    region: Annotated[str, about("Region, such as us-west-2.", min_length=1, max_length=32)]
    kubernetes_version: KubernetesVersion = "1.36"
    credentials: CloudCredentials | None = None
    networking: Annotated[EKSNetworking, about("Address ranges of the cluster's network.")] = EKSNetworking()
    node_pools: Annotated[tuple[EKSNodePool, ...], POOLS]


class EKSCluster(Model):
    """A cluster to create on Amazon Elastic Kubernetes Service, for the InferenceCluster of the same name."""

    __rules__ = (NAME_RULE,)

    metadata: ObjectMeta
    spec: Annotated[EKSClusterSpec, about("The cluster to create.")]
    status: Annotated[CachingClusterStatus, about("Access to the cluster.")] = CachingClusterStatus()
