"""NebiusCluster: a cluster on Nebius Managed Kubernetes, with its network and node groups."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.clouds.cloud_cluster import (
    GPU_RULE,
    MAXIMUM_RULE,
    NAME_RULE,
    POOLS,
    AutoscalingLimit,
    CachingClusterStatus,
    GPUs,
    NodeCount,
    NodePoolRole,
    NodeTaints,
    PoolName,
    Spot,
)
from modelplane.api.clouds.cloud_settings import DiskSizeGb
from modelplane.api.clouds.nebius_settings import NebiusSettings
from modelplane.api.fields.cluster.node_pools import (
    BOUNDS_RULE,
    FEWEST_TEXT,
    MAX_CLOUD_POOL_NODES,
    InfiniBand,
)
from modelplane.api.inference_class import DriversPreset, Platform, Preset
from modelplane.api.meta import Model, ObjectMeta
from modelplane.api.schema.fields import Rule, about


class NebiusFabricType(StrEnum):
    """Type of the network between the nodes of a pool."""

    NONE = "None"
    INFINIBAND = "InfiniBand"


class NebiusFabric(Model):
    """The network between the nodes of a pool."""

    __rules__ = (
        Rule(
            "(self.type == 'InfiniBand') == has(self.infiniband)",
            "infiniband is required when type is InfiniBand, and belongs to no other type",
        ),
    )

    type: Annotated[NebiusFabricType, about("Technology.")] = NebiusFabricType.NONE
    infiniband: Annotated[InfiniBand, about("The InfiniBand network to join.")] | None = None


class NebiusGPUs(GPUs):
    """The GPUs of each node in a pool."""

    drivers_preset: DriversPreset = "cuda13.0"


class NebiusNodePool(Model):
    """A pool of identical nodes."""

    __rules__ = (GPU_RULE, MAXIMUM_RULE, BOUNDS_RULE)

    name: PoolName
    role: NodePoolRole
    platform: Platform
    preset: Preset
    disk_size_gb: DiskSizeGb = 100
    node_count: NodeCount = 1
    min_node_count: (
        Annotated[int, about(f"{FEWEST_TEXT} Default: nodeCount.", ge=0, le=MAX_CLOUD_POOL_NODES)] | None
    ) = None
    max_node_count: AutoscalingLimit | None = None
    taints: NodeTaints = ()
    spot: Spot = False
    gpu: Annotated[NebiusGPUs, about("The GPUs of each node. Required for role GPU.")] | None = None
    fabric: Annotated[NebiusFabric, about("The network between the nodes.")] = NebiusFabric()


class NebiusClusterSpec(NebiusSettings):
    """The cluster to create."""

    node_pools: Annotated[tuple[NebiusNodePool, ...], POOLS]


class NebiusCluster(Model):
    """A Nebius cluster to create for the InferenceCluster with the same name."""

    __rules__ = (NAME_RULE,)

    metadata: ObjectMeta
    spec: Annotated[NebiusClusterSpec, about("The cluster to create.")]
    status: Annotated[CachingClusterStatus, about("Access to the cluster.")] = CachingClusterStatus()
