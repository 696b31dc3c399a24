"""InferenceCluster: a Kubernetes cluster of the fleet, made or brought.

Its labels are what deployments select by; its ``status.gpuPools`` is all that
the scheduler knows of its hardware.
"""

import datetime as dt
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal

from modelplane.api import labels
from modelplane.api.devices import Device
from modelplane.api.fields import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    LABEL_VALUE,
    QUALIFIED_NAME,
    SECRET_KEY,
    VERSION,
    Rule,
    about,
)
from modelplane.api.meta import SYSTEM_NAMESPACE, Model, ObjectMeta, Status


class Source(StrEnum):
    """Where a cluster comes from."""

    GKE = "GKE"
    EKS = "EKS"
    AKS = "AKS"
    NEBIUS = "Nebius"
    VULTR = "Vultr"
    EXISTING = "Existing"


class CredentialsKind(StrEnum):
    """The kind of provider configuration that holds a cloud's credentials."""

    PROVIDER_CONFIG = "ProviderConfig"
    CLUSTER_PROVIDER_CONFIG = "ClusterProviderConfig"


class IdentityType(StrEnum):
    """Which cloud a credential is for."""

    GOOGLE = "GoogleApplicationCredentials"
    AWS = "AWSWebIdentityCredentials"
    NEBIUS = "NebiusServiceAccountCredentials"


class TaintEffect(StrEnum):
    """What a taint does to deployments that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


class FabricType(StrEnum):
    """The network between the nodes of a pool."""

    NONE = "None"
    EFA = "EFA"
    INFINIBAND = "InfiniBand"


class Accounting(StrEnum):
    """What the scheduler counts in a pool."""

    NODES = "Nodes"
    DEVICES = "Devices"


class NodeTaintEffect(StrEnum):
    """What a taint of a node does to pods that do not tolerate it (Kubernetes, ``core/v1``)."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class ServingProfile(StrEnum):
    """How much is installed on a cluster."""

    STANDARD = "Standard"
    NONE = "None"


SecretKey = Annotated[str, about("Key in the Secret.", min_length=1, max_length=253, pattern=SECRET_KEY)]
SecretName = Annotated[
    str,
    about(
        f"Name of a Secret in namespace {SYSTEM_NAMESPACE}.",
        min_length=1,
        max_length=253,
        pattern=DNS_SUBDOMAIN,
    ),
]


class KubeconfigSecret(Model):
    """The Secret that holds a kubeconfig."""

    name: SecretName
    key: SecretKey = "kubeconfig"


class IdentitySecret(Model):
    """The Secret that holds a cloud credential."""

    name: SecretName
    key: SecretKey = "private_key"
    type: Annotated[IdentityType, about("Which cloud the credential is for.")] = IdentityType.GOOGLE


class CacheStorage(Model):
    """Where a cluster keeps staged models."""

    storage_class_name: (
        Annotated[
            str,
            about(
                "StorageClass that offers ReadWriteMany volumes.",
                min_length=1,
                max_length=253,
                pattern=DNS_SUBDOMAIN,
            ),
        ]
        | None
    ) = None


class Existing(Model):
    """A cluster that exists already."""

    secret_ref: Annotated[KubeconfigSecret, about("The kubeconfig that reaches the cluster.")]
    identity_secret_ref: (
        Annotated[
            IdentitySecret,
            about("A cloud credential used with the kubeconfig, for clusters that authenticate by IAM."),
        ]
        | None
    ) = None
    cache: Annotated[CacheStorage, about("Where ModelCaches are staged on this cluster.")] | None = None


class Credentials(Model):
    """The provider configuration to authenticate with."""

    type: Annotated[
        CredentialsKind,
        about(
            "Kind of the provider configuration. A ProviderConfig is read from the namespace where the "
            f"cluster is provisioned, {SYSTEM_NAMESPACE}."
        ),
    ] = CredentialsKind.CLUSTER_PROVIDER_CONFIG
    name: Annotated[
        str,
        about("Name of the provider configuration.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN),
    ] = "default"


CloudCredentials = Annotated[
    Credentials, about("Which cloud account to use. Absent: the provider's default.")
]
KubernetesVersion = Annotated[
    str, about("Kubernetes version, such as 1.35.", min_length=1, max_length=32, pattern=VERSION)
]


GCPProject = Annotated[
    str,
    about(
        "Deprecated and not used: the project is read from the provider configuration.",
        min_length=6,
        max_length=30,
    ),
]


class GKE(Model):
    """A cluster to make on Google Kubernetes Engine."""

    region: Annotated[str, about("Region, such as us-central1.", min_length=1, max_length=32)]
    kubernetes_version: KubernetesVersion = "1.35"
    credentials: CloudCredentials | None = None
    project: GCPProject | None = None


class EKS(Model):
    """A cluster to make on Amazon Elastic Kubernetes Service."""

    region: Annotated[str, about("Region, such as us-west-2.", min_length=1, max_length=32)]
    kubernetes_version: KubernetesVersion = "1.36"
    credentials: CloudCredentials | None = None


class AKS(Model):
    """A cluster to make on Azure Kubernetes Service."""

    location: Annotated[str, about("Location, such as westeurope.", min_length=1, max_length=32)]
    kubernetes_version: KubernetesVersion = "1.34"
    credentials: CloudCredentials | None = None


class Nebius(Model):
    """A cluster to make on Nebius; project and region come from the provider configuration."""

    kubernetes_version: KubernetesVersion = "1.34"
    credentials: CloudCredentials | None = None


VultrVersion = Annotated[
    str,
    about(
        "Version of the Kubernetes Engine, with its build suffix.",
        min_length=1,
        max_length=32,
        pattern=VERSION,
    ),
]


class Vultr(Model):
    """A cluster to make on Vultr Kubernetes Engine."""

    region: Annotated[str, about("Region, such as ewr.", min_length=1, max_length=32)]
    kubernetes_version: VultrVersion = "v1.36.1+3"
    credentials: CloudCredentials | None = None


class ClusterOrigin(Model):
    """Where the cluster comes from."""

    __rules__ = tuple(
        Rule(
            f"self.source != '{source}' || has(self.{source.lower()})",
            f"{source.lower()} is required when source is {source}",
        )
        for source in Source
    )

    source: Annotated[Source, about("Existing, or the cloud that the cluster is made on.")]
    existing: Annotated[Existing, about("A cluster that exists already.")] | None = None
    gke: Annotated[GKE, about("Settings for GKE.")] | None = None
    eks: Annotated[EKS, about("Settings for EKS.")] | None = None
    aks: Annotated[AKS, about("Settings for AKS.")] | None = None
    nebius: Annotated[Nebius, about("Settings for Nebius; may be empty.")] | None = None
    vultr: Annotated[Vultr, about("Settings for Vultr.")] | None = None


class Taint(Model):
    """A mark that keeps deployments away unless they tolerate it."""

    key: Annotated[str, about("Key of the taint.", min_length=1, max_length=317, pattern=QUALIFIED_NAME)]
    value: Annotated[str, about("Value of the taint.", max_length=63, pattern=LABEL_VALUE)] = ""
    effect: Annotated[
        TaintEffect,
        about("NoSchedule keeps new replicas away. NoExecute also moves the present ones elsewhere."),
    ]


class CapacityBlock(Model):
    """Reserved AWS capacity."""

    capacity_reservation_id: Annotated[
        str,
        about(
            "Id of the reservation, such as cr-0a1b.", min_length=4, max_length=64, pattern="^cr-[0-9a-f]+$"
        ),
    ]


class InfiniBand(Model):
    """An InfiniBand network."""

    fabric: Annotated[
        str, about("Id of the physical Nebius fabric, such as fabric-2.", min_length=1, max_length=63)
    ]


class NodeTaint(Model):
    """A taint that every node of a pool has."""

    key: Annotated[str, about("Key of the taint.", min_length=1, max_length=317, pattern=QUALIFIED_NAME)]
    value: Annotated[str, about("Value of the taint.", max_length=63, pattern=LABEL_VALUE)] = ""
    effect: Annotated[NodeTaintEffect, about("What it does to pods that do not tolerate it.")]


class Fabric(Model):
    """The network between the nodes of a pool."""

    name: (
        Annotated[
            str,
            about(
                "Name of the network. Pools of a cluster whose type and name are the same are joined: the "
                "members of one gang may be in different ones of them. Absent: no other pool is joined.",
                min_length=1,
                max_length=63,
                pattern=LABEL_VALUE,
            ),
        ]
        | None
    ) = None
    type: Annotated[FabricType, about("Technology. EFA is for EKS, InfiniBand for AKS and Nebius.")] = (
        FabricType.NONE
    )
    infiniband: (
        Annotated[InfiniBand, about("The InfiniBand network; Nebius needs it, AKS ignores it.")] | None
    ) = None


# Keywords for a type say nothing of a value of another type, so an object is what no word, number,
# list or truth value can be.
_OBJECT = {
    "pattern": "[^\\s\\S]",
    "minimum": 1,
    "maximum": 0,
    "minItems": 1,
    "maxItems": 0,
    "not": {"enum": [True, False]},
}
_INFINIBAND = _OBJECT | {"properties": {"type": {"enum": [str(FabricType.INFINIBAND)]}}}
_FABRIC_FORMS = (
    {"enum": [str(FabricType.NONE), str(FabricType.EFA)]},
    _OBJECT | {"maxProperties": 1},
    _OBJECT | {"maxProperties": 2, "required": ["name"]},
    _INFINIBAND | {"maxProperties": 2, "required": ["infiniband"]},
    _INFINIBAND | {"maxProperties": 3, "required": ["infiniband", "name"]},
)
"""A word; an object, whose type the server has filled in by then; or InfiniBand with its settings.

The counts leave no room for a field that is not known, which the server would keep here.
"""


BOUNDS_RULE = Rule(
    "!has(self.minNodeCount) || !has(self.maxNodeCount) || self.minNodeCount <= self.maxNodeCount",
    "minNodeCount must not be greater than maxNodeCount",
)
"""On a pool."""


MAX_POOL_NODES = 5000
"""Nodes of one pool: as many as Kubernetes supports in a cluster (Considerations for large clusters)."""

_SIZE_RULE = Rule(
    f"[self.nodeCount, has(self.minNodeCount) ? self.minNodeCount : 0, "
    f"has(self.maxNodeCount) ? self.maxNodeCount : 0].all(count, count <= {MAX_POOL_NODES})",
    f"a pool has at most {MAX_POOL_NODES} nodes: divide it into several",
)
"""A rule and no limits of the fields, so that a cluster that is stored already can still be read."""


class NodePool(Model):
    """Like nodes of one class."""

    __rules__ = (BOUNDS_RULE, _SIZE_RULE)

    name: Annotated[
        str,
        about(
            f"Name of the pool. Nodes carry it as the label {labels.POOL}, which you set yourself "
            "on an Existing cluster.",
            min_length=1,
            max_length=40,
            pattern=LABEL_VALUE,
        ),
    ]
    class_name: Annotated[
        str,
        about("InferenceClass of the nodes.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN),
    ]
    node_count: Annotated[
        int, about(f"Nodes to have, or to begin with when autoscaled. At most {MAX_POOL_NODES}.", ge=0)
    ] = 1
    min_node_count: Annotated[int, about("Fewest nodes when autoscaled.", ge=0)] | None = None
    max_node_count: (
        Annotated[
            int,
            about(
                f"Most nodes when autoscaled. At most {MAX_POOL_NODES}. Absent: the pool keeps its size.",
                ge=1,
            ),
        ]
        | None
    ) = None
    zones: Annotated[
        tuple[Annotated[str, about("Name of a zone.", min_length=1, max_length=63)], ...],
        about("Zones of the nodes; GKE and EKS need at least one.", max_length=8, atomic=True),
    ] = ()
    capacity_block: (
        Annotated[CapacityBlock, about("AWS Capacity Block that backs the pool; for EKS.")] | None
    ) = None
    fabric: (
        Annotated[
            Literal["None", "EFA"] | Fabric,
            about(
                "Network between the nodes: an object, or the word None or EFA alone.", any_of=_FABRIC_FORMS
            ),
        ]
        | None
    ) = None

    accounting: Annotated[
        Accounting,
        about(
            "Nodes: a pod that claims devices takes a whole node. Devices: it takes the devices that it "
            "claims, and replicas share nodes."
        ),
    ] = Accounting.NODES
    taints: Annotated[
        tuple[NodeTaint, ...],
        about(
            "Taints that the nodes have beside nvidia.com/gpu, so that the pods tolerate them.",
            max_length=16,
            keys=("key", "effect"),
        ),
    ] = ()

    def interconnect(self) -> Fabric:
        """Return ``fabric`` in its object form, whichever way it was written."""
        if isinstance(self.fabric, Fabric):
            return self.fabric
        return Fabric() if self.fabric is None else Fabric(type=FabricType(self.fabric))

    def fabric_identity(self) -> str:
        """Return what pools that are joined have in common; empty for a pool that no other is joined to."""
        fabric = self.interconnect()
        if fabric.name:
            return f"{fabric.type}/{fabric.name}"
        return f"{fabric.type}/{fabric.infiniband.fabric}" if fabric.infiniband else ""


class ServingStack(Model):
    """What is installed on the cluster to serve models."""

    profile: Annotated[
        ServingProfile,
        about(
            "Standard: everything that serving needs, which this version does not install yet: bring it "
            "yourself. None: nothing, because it is there already."
        ),
    ] = ServingProfile.STANDARD


MAX_NODES = 1000
"""Nodes of one provisioned pool."""

AKS_POOL_NAME = "^[a-z][a-z0-9]{0,11}$"
"""What Azure takes for the name of a pool."""

_PROVISIONED = tuple(str(source) for source in Source if source is not Source.EXISTING)


def _every_pool(sources: Sequence[str], holds: str, message: str) -> Rule:
    """Return a rule over every pool of a cluster from one of the sources."""
    return Rule(
        f"!(self.cluster.source in {list(sources)}) || !has(self.nodePools) || "
        f"self.nodePools.all(pool, {holds})",
        message,
    )


class InferenceClusterSpec(Model):
    """Where the cluster comes from and which nodes it has."""

    __rules__ = (
        _every_pool(
            _PROVISIONED,
            "pool.name != 'system'",
            "a provisioned cluster gets a pool named system of its own: give this pool another name",
        ),
        _every_pool(
            _PROVISIONED,
            f"pool.name.matches('{DNS_LABEL}')",
            "a pool of a provisioned cluster is named by lower-case letters, digits and '-', with a letter "
            "or digit at both ends: cloud resources are named after it",
        ),
        _every_pool(
            ("AKS",),
            f"pool.name.matches('{AKS_POOL_NAME}')",
            "a pool of an AKS cluster is named by at most 12 lower-case letters and digits, a letter first",
        ),
        _every_pool(
            ("GKE", "EKS"),
            "has(pool.zones) && size(pool.zones) > 0",
            "zones are required in every pool of a GKE or EKS cluster: list the zones that have its nodes",
        ),
        _every_pool(
            ("Nebius", "Vultr"),
            "!has(pool.minNodeCount) || has(pool.maxNodeCount)",
            "maxNodeCount is required with minNodeCount where the source is Nebius or Vultr",
        ),
        _every_pool(
            ("Vultr",),
            "pool.nodeCount >= 1 && (!has(pool.minNodeCount) || pool.minNodeCount >= 1)",
            "a pool of a Vultr cluster has at least one node: raise nodeCount and minNodeCount to 1",
        ),
        _every_pool(
            _PROVISIONED,
            f"pool.nodeCount <= {MAX_NODES} && "
            f"(!has(pool.minNodeCount) || pool.minNodeCount <= {MAX_NODES}) && "
            f"(!has(pool.maxNodeCount) || pool.maxNodeCount <= {MAX_NODES})",
            f"a pool of a provisioned cluster has at most {MAX_NODES} nodes: divide it into several",
        ),
    )

    cluster: Annotated[ClusterOrigin, about("Where the cluster comes from.")]
    taints: Annotated[
        tuple[Taint, ...],
        about("Keep away every ModelDeployment that does not tolerate them.", keys=("key", "effect")),
    ] = ()
    node_pools: Annotated[
        tuple[NodePool, ...],
        about("Pools of GPU nodes.", min_length=1, max_length=8, keys=("name",)),
    ] = ()
    serving_stack: Annotated[ServingStack, about("What is installed on the cluster.")] = ServingStack()


class ProviderConfigReference(Model):
    """The provider configuration that reaches the cluster."""

    name: Annotated[str, about("Name of the ClusterProviderConfig.")]


class ClusterGateway(Model):
    """The gateway on the cluster."""

    address: Annotated[str, about("Host or IP address, with a port where it is not 80.")]


class GPUPool(Model):
    """A pool that replicas can be placed on."""

    name: Annotated[str, about("Name of the node pool.")]
    nodes: Annotated[int, about("The most nodes the pool can have.", ge=0)] = 0
    accounting: Annotated[Accounting, about("What the scheduler counts in the pool.")] = Accounting.NODES
    fabric: (
        Annotated[str, about("Network that the pool shares with the others that say the same.")] | None
    ) = None
    devices: Annotated[
        tuple[Device, ...],
        about("What each node has, as its class says.", max_length=16, keys=("name",)),
    ] = ()


class Capabilities(Model):
    """What was found on the cluster."""

    dra: Annotated[bool, about("Whether devices can be claimed (resource.k8s.io/v1).")]
    leader_worker_set: Annotated[bool, about("Whether gangs can run (LeaderWorkerSet).")]
    inference_pool: Annotated[bool, about("Whether an endpoint picker can route (InferencePool).")]


class InferenceClusterStatus(Status):
    """What is known of the cluster."""

    provider_config_ref: (
        Annotated[ProviderConfigReference, about("How the cluster is reached; under Crossplane only.")] | None
    ) = None
    gateway: Annotated[ClusterGateway, about("The gateway on the cluster.")] | None = None
    cache: Annotated[CacheStorage, about("Where ModelCaches are staged.")] | None = None
    gpu_pools: Annotated[
        tuple[GPUPool, ...],
        about("Pools that replicas can be placed on.", max_length=8, keys=("name",)),
    ] = ()
    namespace: Annotated[str, about("Namespace of the objects that provision the cluster.")] | None = None
    capabilities: (
        Annotated[Capabilities, about("What was found on the cluster. Absent until it was looked at.")] | None
    ) = None
    unreachable_since: (
        Annotated[dt.datetime, about("When the API server stopped answering. Absent while it answers.")]
        | None
    ) = None


class InferenceCluster(Model):
    """A Kubernetes cluster on which models are served."""

    __rules__ = (
        Rule(
            "self.spec.cluster.source == 'Existing' || !self.metadata.name.contains('.')",
            "metadata.name of a provisioned cluster must not contain a dot: cloud resources are named "
            "after it",
        ),
    )

    metadata: ObjectMeta
    spec: Annotated[InferenceClusterSpec, about("Where the cluster comes from and which nodes it has.")]
    status: Annotated[InferenceClusterStatus, about("What is known of the cluster.")] = (
        InferenceClusterStatus()
    )
