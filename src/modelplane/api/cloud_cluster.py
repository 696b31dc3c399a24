"""Common parts of the cluster kinds of all clouds.

An InferenceCluster is provisioned through one object of the cloud's kind, of the same name, in the system
namespace. Every cluster also gets a system pool; the pools here are in addition to it.
"""

from enum import StrEnum
from typing import Annotated

from modelplane.api import labels
from modelplane.api.cluster_origin import CacheStorage, IdentityType
from modelplane.api.fields import DNS_LABEL, DNS_SUBDOMAIN, SECRET_KEY, Rule, about
from modelplane.api.inference_class import AcceleratorType
from modelplane.api.meta import Model, Status
from modelplane.api.node_pools import MAX_NODES


class PoolRole(StrEnum):
    """Purpose of a pool's nodes."""

    SYSTEM = "System"
    GPU = "GPU"


class SecretType(StrEnum):
    """Content of a Secret: access to the cluster, or a cloud identity for that access."""

    KUBECONFIG = "Kubeconfig"
    GOOGLE = IdentityType.GOOGLE.value
    AWS = IdentityType.AWS.value
    NEBIUS = IdentityType.NEBIUS.value
    GCP_SERVICE_ACCOUNT_KEY = "GCPServiceAccountKey"


_IDENTITIES = {
    SecretType.GOOGLE: IdentityType.GOOGLE,
    SecretType.AWS: IdentityType.AWS,
    SecretType.NEBIUS: IdentityType.NEBIUS,
    SecretType.GCP_SERVICE_ACCOUNT_KEY: IdentityType.GOOGLE,
}


class ClusterSecret(Model):
    """A Secret for access to a cluster."""

    type: Annotated[
        SecretType,
        about(
            "Content of the Secret: a kubeconfig, or a cloud identity that is used with it. "
            "GCPServiceAccountKey is the older name of GoogleApplicationCredentials."
        ),
    ]
    name: Annotated[str, about("Name of the Secret.", max_length=253, pattern=DNS_SUBDOMAIN)]
    key: Annotated[str, about("Key in the Secret.", max_length=253, pattern=SECRET_KEY)]
    namespace: (
        Annotated[
            str,
            about("Namespace of the Secret. Absent: that of this object.", max_length=63, pattern=DNS_LABEL),
        ]
        | None
    ) = None

    @property
    def identity(self) -> IdentityType | None:
        """Cloud of the identity in the Secret; None for a kubeconfig."""
        return _IDENTITIES.get(self.type)


class CloudClusterStatus(Status):
    """Access to the cluster."""

    secrets: Annotated[
        tuple[ClusterSecret, ...], about("Secrets for access to the cluster.", atomic=True)
    ] = ()


class CachingClusterStatus(CloudClusterStatus):
    """Access to the cluster, and its storage for staged models."""

    cache: Annotated[CacheStorage, about("Storage for ModelCaches.")] | None = None


PoolName = Annotated[
    str,
    about(
        f"Name of the pool. Nodes carry it as the label {labels.POOL}.",
        min_length=1,
        max_length=40,
        pattern=DNS_LABEL,
    ),
]
Role = Annotated[PoolRole, about("System: nodes for everything but models. GPU: nodes for engines.")]
NodeCount = Annotated[int, about("Number of nodes; when autoscaled, the initial number.", ge=0, le=MAX_NODES)]
MinNodeCount = Annotated[int, about("Fewest nodes when autoscaled. Absent: 0.", ge=0, le=MAX_NODES)]
MaxNodeCount = Annotated[int, about("Most nodes when autoscaled.", ge=0, le=MAX_NODES)]
AutoscalingLimit = Annotated[int, about("Most nodes. Absent: the pool keeps its size.", ge=1, le=MAX_NODES)]
Zones = Annotated[
    tuple[Annotated[str, about("Name of a zone.", min_length=1, max_length=63)], ...],
    about("Zones of the nodes. Required for role GPU.", min_length=1, max_length=8, atomic=True),
]


class GPUs(Model):
    """The GPUs of a pool's nodes."""

    accelerator_type: AcceleratorType


POOLS = about(
    "Node pools, in addition to the system pool that every cluster gets.",
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
