"""EKSCluster: a cluster on Amazon Elastic Kubernetes Service, with its network and node groups."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.clouds.cloud_cluster import (
    GPU_RULE,
    NAME_RULE,
    POOLS,
    ZONES_RULE,
    CloudClusterStatus,
    GPUs,
    MaxNodeCount,
    MinNodeCount,
    NodeCount,
    NodePoolRole,
    NodeTaints,
    PoolName,
    Spot,
    Zones,
)
from modelplane.api.clouds.cloud_settings import DiskSizeGb
from modelplane.api.clouds.cluster_origin import CacheStorage
from modelplane.api.clouds.eks_settings import EKSSettings
from modelplane.api.fields.cluster.node_pools import BOUNDS_RULE, NOT_RESERVED_RULE, CapacityBlock
from modelplane.api.meta import Model, ObjectMeta
from modelplane.api.schema.fields import about


class EKSFabric(StrEnum):
    """The network between the nodes of a pool."""

    NONE = "None"
    EFA = "EFA"


class EKSNodePool(Model):
    """A pool of identical nodes."""

    __rules__ = (GPU_RULE, ZONES_RULE, BOUNDS_RULE, NOT_RESERVED_RULE)

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
    capacity_block: (
        Annotated[CapacityBlock, about("AWS Capacity Block that provides the nodes of the pool.")] | None
    ) = None
    zones: Zones = ()
    taints: NodeTaints = ()
    spot: Spot = False
    fabric: Annotated[
        EKSFabric, about("Type of the network. With EFA, each node has Elastic Fabric Adapters.")
    ] = EKSFabric.NONE


class EKSStorage(CacheStorage):
    """Storage for staged models on an EKS cluster."""

    file_system: (
        Annotated[str, about("ID of the EFS file system that the StorageClass uses.", max_length=63)] | None
    ) = None


class EKSClusterStatus(CloudClusterStatus):
    """Access to the cluster, and storage for staged models."""

    cache: Annotated[EKSStorage, about("Storage for ModelCaches.")] | None = None


class EKSClusterSpec(EKSSettings):
    """The cluster to create."""

    node_pools: Annotated[tuple[EKSNodePool, ...], POOLS]


class EKSCluster(Model):
    """An Amazon Elastic Kubernetes Service (EKS) cluster to create for the InferenceCluster with the same
    name."""

    __rules__ = (NAME_RULE,)

    metadata: ObjectMeta
    spec: Annotated[EKSClusterSpec, about("The cluster to create.")]
    status: Annotated[EKSClusterStatus, about("Access to the cluster.")] = EKSClusterStatus()
