"""GKECluster: a cluster on Google Kubernetes Engine, with its network and node pools."""

from typing import Annotated

from modelplane.api.clouds.cloud_cluster import (
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
    NodeTaints,
    PoolName,
    Spot,
    Zones,
)
from modelplane.api.clouds.cloud_settings import DiskSizeGb
from modelplane.api.clouds.gke_settings import GKESettings
from modelplane.api.fields.cluster.node_pools import BOUNDS_RULE
from modelplane.api.meta import Model, ObjectMeta
from modelplane.api.schema.fields import about


class GKEGPUs(GPUs):
    """The GPUs of each node in a pool."""

    accelerator_count: Annotated[int, about("Number of GPUs of each node.", ge=1, le=16)] = 1


class GKENodePool(Model):
    """A pool of identical nodes."""

    __rules__ = (GPU_RULE, ZONES_RULE, BOUNDS_RULE)

    name: PoolName
    role: NodePoolRole
    machine_type: Annotated[
        str, about("Compute Engine machine type, such as g2-standard-8.", min_length=1, max_length=63)
    ]
    disk_size_gb: DiskSizeGb = 100
    node_count: NodeCount = 1
    min_node_count: MinNodeCount = 0
    max_node_count: MaxNodeCount = 8
    gpu: Annotated[GKEGPUs, about("The GPUs of each node. Required for role GPU.")] | None = None
    zones: Zones = ()
    taints: NodeTaints = ()
    spot: Spot = False


class GKEClusterSpec(GKESettings):
    """The cluster to create."""

    node_pools: Annotated[tuple[GKENodePool, ...], POOLS]


class GKECluster(Model):
    """A Google Kubernetes Engine (GKE) cluster to create for the InferenceCluster with the same name."""

    __rules__ = (NAME_RULE,)

    metadata: ObjectMeta
    spec: Annotated[GKEClusterSpec, about("The cluster to create.")]
    status: Annotated[CachingClusterStatus, about("Access to the cluster.")] = CachingClusterStatus()
