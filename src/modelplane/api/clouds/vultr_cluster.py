"""VultrCluster: a cluster on Vultr Kubernetes Engine, with its node pools."""

from typing import Annotated

from modelplane.api.clouds.cloud_cluster import (
    GPU_RULE,
    MAXIMUM_RULE,
    NAME_RULE,
    POOLS,
    AutoscalingLimit,
    CloudClusterStatus,
    GPUs,
    NodePoolRole,
    NodeTaints,
    PoolName,
)
from modelplane.api.clouds.vultr_settings import VultrSettings
from modelplane.api.fields.cluster.node_pools import (
    BOUNDS_RULE,
    FEWEST_TEXT,
    MAX_CLOUD_POOL_NODES,
    NODE_COUNT_TEXT,
)
from modelplane.api.meta import Model, ObjectMeta
from modelplane.api.schema.fields import about


class VultrNodePool(Model):
    """A pool of identical nodes, at least one."""

    __rules__ = (GPU_RULE, MAXIMUM_RULE, BOUNDS_RULE)

    name: PoolName
    role: NodePoolRole
    plan: Annotated[str, about("Vultr plan, such as vcg-l40s-16c-180g-48vram.", min_length=1, max_length=63)]
    node_count: Annotated[int, about(NODE_COUNT_TEXT, ge=1, le=MAX_CLOUD_POOL_NODES)] = 1
    min_node_count: (
        Annotated[int, about(f"{FEWEST_TEXT} Default: nodeCount.", ge=1, le=MAX_CLOUD_POOL_NODES)] | None
    ) = None
    max_node_count: AutoscalingLimit | None = None
    taints: NodeTaints = ()
    gpu: Annotated[GPUs, about("The GPUs of each node. Required for role GPU.")] | None = None


class VultrClusterSpec(VultrSettings):
    """The cluster to create."""

    node_pools: Annotated[tuple[VultrNodePool, ...], POOLS]


class VultrCluster(Model):
    """A Vultr Kubernetes Engine cluster to create for the InferenceCluster with the same name."""

    __rules__ = (NAME_RULE,)

    metadata: ObjectMeta
    spec: Annotated[VultrClusterSpec, about("The cluster to create.")]
    status: Annotated[CloudClusterStatus, about("Access to the cluster.")] = CloudClusterStatus()
