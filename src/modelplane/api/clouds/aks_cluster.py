"""AKSCluster: a cluster on Azure Kubernetes Service, with its network and node pools."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.clouds.aks_settings import AKSSettings
from modelplane.api.clouds.cloud_cluster import (
    GPU_RULE,
    NAME_RULE,
    POOLS,
    CachingClusterStatus,
    GPUs,
    MaxNodeCount,
    MinNodeCount,
    NodeCount,
    NodePoolRole,
    NodeTaints,
    Spot,
)
from modelplane.api.clouds.cloud_settings import DiskSizeGb
from modelplane.api.fields.cluster.node_pools import AKS_POOL_NAME, BOUNDS_RULE, POOL_NAME_TEXT
from modelplane.api.meta import Model, ObjectMeta
from modelplane.api.schema.fields import about


class AKSFabric(StrEnum):
    """The network between the nodes of a pool."""

    NONE = "None"
    INFINIBAND = "InfiniBand"


class AKSNodePool(Model):
    """A pool of identical nodes."""

    __rules__ = (GPU_RULE, BOUNDS_RULE)

    name: Annotated[
        str,
        about(
            f"{POOL_NAME_TEXT}.",
            min_length=1,
            max_length=12,
            pattern=AKS_POOL_NAME,
        ),
    ]
    role: NodePoolRole
    vm_size: Annotated[str, about("Azure VM size, which determines the GPU.", min_length=1, max_length=63)]
    disk_size_gb: DiskSizeGb = 100
    node_count: NodeCount = 1
    min_node_count: MinNodeCount = 0
    max_node_count: MaxNodeCount = 8
    zones: Annotated[
        tuple[Annotated[str, about("Number of a zone.", min_length=1, max_length=8)], ...],
        about("Zones of the nodes. Default: Azure chooses.", min_length=1, max_length=3, atomic=True),
    ] = ()
    taints: NodeTaints = ()
    spot: Spot = False
    gpu: Annotated[GPUs, about("The GPUs of each node. Required for role GPU.")] | None = None
    fabric: Annotated[
        AKSFabric,
        about("Type of the network. With InfiniBand, Modelplane installs the NVIDIA network operator."),
    ] = AKSFabric.NONE


class AKSClusterSpec(AKSSettings):
    """The cluster to create."""

    node_pools: Annotated[tuple[AKSNodePool, ...], POOLS]


class AKSCluster(Model):
    """An Azure Kubernetes Service (AKS) cluster to create for the InferenceCluster with the same name."""

    __rules__ = (NAME_RULE,)

    metadata: ObjectMeta
    spec: Annotated[AKSClusterSpec, about("The cluster to create.")]
    status: Annotated[CachingClusterStatus, about("Access to the cluster.")] = CachingClusterStatus()
