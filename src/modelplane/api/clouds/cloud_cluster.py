"""Common parts of the cluster kinds of all clouds.

An object describes one cluster and its pools. They are in addition to the system pool that every cluster
gets.
"""

from enum import StrEnum
from typing import Annotated

from modelplane.api.clouds.cluster_origin import CacheStorage, IdentityType
from modelplane.api.fields.cluster.node_pools import (
    FEWEST_TEXT,
    MAX_CLOUD_POOL_NODES,
    MOST_TEXT,
    NODE_COUNT_TEXT,
    POOL_NAME_TEXT,
    SPOT_TEXT,
    NodeTaint,
    ZoneName,
)
from modelplane.api.inference_class import AcceleratorType
from modelplane.api.meta import Model, Status
from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN, SECRET_KEY, Rule, about


class PoolRole(StrEnum):
    """Purpose of the nodes in a pool."""

    SYSTEM = "System"
    GPU = "GPU"


class SecretType(StrEnum):
    """Content of a Secret: access to the cluster, or a cloud identity for that access."""

    KUBECONFIG = "Kubeconfig"
    GOOGLE = IdentityType.GOOGLE.value
    AWS = IdentityType.AWS.value
    NEBIUS = IdentityType.NEBIUS.value
    GCP_SERVICE_ACCOUNT_KEY = "GCPServiceAccountKey"


class ClusterSecret(Model):
    """A Secret for access to a cluster."""

    type: Annotated[
        SecretType,
        about(
            "Content of the Secret: a kubeconfig, or a cloud identity to use with the "
            "kubeconfig. GCPServiceAccountKey is the older name of GoogleApplicationCredentials."
        ),
    ]
    name: Annotated[str, about("Name of the Secret.", max_length=253, pattern=DNS_SUBDOMAIN)]
    key: Annotated[str, about("Key in the Secret.", max_length=253, pattern=SECRET_KEY)]
    namespace: (
        Annotated[
            str,
            about(
                "Namespace of the Secret. Default: the namespace of this object.",
                max_length=63,
                pattern=DNS_LABEL,
            ),
        ]
        | None
    ) = None


class CloudClusterStatus(Status):
    """Access to the cluster."""

    secrets: Annotated[
        tuple[ClusterSecret, ...], about("Secrets for access to the cluster.", atomic=True)
    ] = ()


class CachingClusterStatus(CloudClusterStatus):
    """Access to the cluster, and storage for staged models."""

    cache: Annotated[CacheStorage, about("Storage for ModelCaches.")] | None = None


PoolName = Annotated[
    str,
    about(
        f"{POOL_NAME_TEXT}.",
        min_length=1,
        max_length=40,
        pattern=DNS_LABEL,
    ),
]
NodePoolRole = Annotated[PoolRole, about("Purpose of the nodes. System: system components. GPU: engines.")]
NodeCount = Annotated[int, about(NODE_COUNT_TEXT, ge=0, le=MAX_CLOUD_POOL_NODES)]
MinNodeCount = Annotated[int, about(f"{FEWEST_TEXT} Default: 0.", ge=0, le=MAX_CLOUD_POOL_NODES)]
MaxNodeCount = Annotated[int, about(MOST_TEXT, ge=0, le=MAX_CLOUD_POOL_NODES)]
AutoscalingLimit = Annotated[
    int, about("Maximum number of nodes. Default: the pool is not autoscaled.", ge=1, le=MAX_CLOUD_POOL_NODES)
]
Zones = Annotated[
    tuple[ZoneName, ...],
    about("Zones of the nodes. Required for role GPU.", min_length=1, max_length=8, atomic=True),
]

NodeTaints = Annotated[
    tuple[NodeTaint, ...],
    about("Taints of the nodes, in addition to nvidia.com/gpu.", max_length=16, keys=("key", "effect")),
]

Spot = Annotated[bool, about(SPOT_TEXT)]


class GPUs(Model):
    """The GPUs of each node in a pool."""

    accelerator_type: AcceleratorType


POOLS = about(
    "Node pools, in addition to the system pool that every cluster includes.",
    min_length=1,
    max_length=8,
    keys=("name",),
)
"""On the list of a cluster's pools."""

GPU_RULE = Rule("self.role != 'GPU' || has(self.gpu)", "gpu is required when role is GPU")
ZONES_RULE = Rule(
    "self.role != 'GPU' || (has(self.zones) && size(self.zones) > 0)", "zones are required when role is GPU"
)
MAXIMUM_RULE = Rule(
    "!has(self.minNodeCount) || has(self.maxNodeCount)", "maxNodeCount is required with minNodeCount"
)
"""On a pool."""

NAME_RULE = Rule(
    "!self.metadata.name.contains('.')",
    "metadata.name must not contain a dot: cloud resources are named after it",
)
"""On the object."""
