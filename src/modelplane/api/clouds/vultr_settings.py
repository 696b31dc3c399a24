"""Settings of a cluster on Vultr: the same for an InferenceCluster and its VultrCluster."""

from typing import Annotated

from modelplane.api.clouds.cloud_settings import CloudCredentials
from modelplane.api.fields.cluster.node_pools import MAX_CLOUD_POOL_NODES
from modelplane.api.meta import Model
from modelplane.api.schema.fields import VERSION, about


class VultrSystemPool(Model):
    """Nodes for system components. Engines don't run on these nodes."""

    plan: Annotated[str, about("Vultr plan of the nodes.", min_length=1, max_length=63)] = "vc2-6c-16gb"
    min_node_count: Annotated[int, about("Minimum number of nodes.", ge=1, le=MAX_CLOUD_POOL_NODES)] = 1
    max_node_count: Annotated[int, about("Maximum number of nodes.", ge=1, le=MAX_CLOUD_POOL_NODES)] = 2


class VultrSettings(Model):
    """Settings of a Vultr Kubernetes Engine cluster."""

    region: Annotated[str, about("Region, such as ewr.", min_length=1, max_length=32)]
    kubernetes_version: Annotated[
        str,
        about(
            "Version of Vultr Kubernetes Engine, including the build suffix.",
            min_length=1,
            max_length=32,
            pattern=VERSION,
        ),
    ] = "v1.36.1+3"
    credentials: CloudCredentials | None = None
    high_availability: Annotated[
        bool,
        about(
            "Whether the cluster has several control plane nodes, which Vultr bills. You can set "
            "this only when you create the cluster."
        ),
    ] = True
    system_pool: Annotated[
        VultrSystemPool, about("Nodes for system components. Engines don't run on these nodes.")
    ] = VultrSystemPool()
