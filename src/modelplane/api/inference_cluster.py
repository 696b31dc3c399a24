"""InferenceCluster: a Kubernetes cluster of the fleet, provisioned or existing.

Deployments select it by its labels; its ``status.gpuPools`` is all that the scheduler reads of its hardware.
"""

import datetime as dt
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from modelplane.api import labels
from modelplane.api.clouds.cloud_rows import Cloud, get_traits, list_clouds_where
from modelplane.api.clouds.cluster_origin import CacheStorage, ClusterOrigin, Source
from modelplane.api.fields.cluster.devices import Device, DevicePricing
from modelplane.api.fields.cluster.drain_settings import (
    CORDONS,
    Cordon,
    DrainSettings,
    DrainStatus,
    PoolTaint,
    TaintEffect,
    find_strongest,
)
from modelplane.api.fields.cluster.mutual_tls_settings import GatewaySettings, MutualTLSStatus
from modelplane.api.fields.cluster.node_pools import (
    AKS_POOL_NAME,
    MAX_CLOUD_POOL_NODES,
    MAX_NOTICES,
    Accounting,
    EvictionNotice,
    NodePool,
)
from modelplane.api.fields.cluster.stack_components import COMPONENTS, ComponentSettings, ServingProfile
from modelplane.api.fields.cluster.usable_capacity import CapacitySource, UsableCapacity
from modelplane.api.fields.pods.engines import ServingBackend
from modelplane.api.fields.pods.pod_keys import PodKeys
from modelplane.api.fields.pods.pod_scheduler import PodScheduler
from modelplane.api.listing import join_alternatives
from modelplane.api.meta import Model, ObjectMeta, Status
from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, QUALIFIED_NAME, Rule, about


class Taint(Model):
    """A taint, which excludes deployments that don't tolerate it."""

    key: Annotated[str, about("Key of the taint.", min_length=1, max_length=317, pattern=QUALIFIED_NAME)]
    value: Annotated[str, about("Value of the taint.", max_length=63, pattern=LABEL_VALUE)] = ""
    effect: Annotated[
        TaintEffect,
        about("Effect of the taint. NoSchedule: no new replicas. NoExecute: also evict existing replicas."),
    ]


class ServingStack(Model):
    """Components on the cluster for serving models."""

    profile: Annotated[
        ServingProfile,
        about(
            "Set of components to install. Standard: every component required for serving. "
            "Minimal: the gateway, the DRA driver, and the component that labels GPU nodes. "
            "None: only the components that are enabled in components. On a cluster that already "
            "has a gateway, Standard and Minimal install nothing."
        ),
    ] = ServingProfile.STANDARD
    components: Annotated[tuple[ComponentSettings, ...], COMPONENTS] = ()
    backend: Annotated[
        ServingBackend,
        about(
            "Workloads of new replicas. Modelplane: Deployments and LeaderWorkerSets. KServe: "
            "LLMInferenceServices; the components of KServe are added to the profile. Existing "
            "replicas keep their workloads."
        ),
    ] = ServingBackend.MODELPLANE


class LocalObjectKind(StrEnum):
    """Kind of an object on the cluster that pods can reference."""

    SECRET = "Secret"  # noqa: S105 - a kind, not a secret
    CONFIG_MAP = "ConfigMap"


class LocalObject(Model):
    """An object on the cluster that pods can reference."""

    kind: Annotated[LocalObjectKind, about("Kind of the object.")]
    name: Annotated[str, about("Name of the object.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]


_PROVISIONED = tuple(map(str, Cloud))
_SHORT_NAMES = list_clouds_where(lambda cloud: cloud.has_short_pool_names)
_ZONAL = list_clouds_where(lambda cloud: cloud.needs_zones)
_BOUNDED = list_clouds_where(lambda cloud: cloud.needs_upper_bound)
_NEVER_EMPTY = list_clouds_where(lambda cloud: cloud.needs_a_node)
_WITHOUT_SPOT = list_clouds_where(lambda cloud: not cloud.has_spot)


def _every_pool(sources: Sequence[str], holds: str, message: str) -> Rule:
    """Return a rule over every pool of a cluster from one of the sources."""
    return Rule(
        f"!(self.cluster.source in {list(sources)}) || !has(self.nodePools) || "
        f"self.nodePools.all(pool, {holds})",
        message,
    )


_NOT_AT_ONCE = Rule(
    f"!has(self.taints) || self.taints.all(taint, !(taint.key in {list(CORDONS)}) || "
    "taint.effect == 'NoSchedule')",
    f"a taint {' or '.join(CORDONS)} has the effect NoSchedule: NoExecute would evict without replacement",
)


class InferenceClusterSpec(Model):
    """Source and node pools of the cluster."""

    __rules__ = (
        _NOT_AT_ONCE,
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
            _SHORT_NAMES,
            f"pool.name.matches('{AKS_POOL_NAME}')",
            f"a pool of an {join_alternatives(_SHORT_NAMES)} cluster is named by at most 12 lower-case "
            "letters and digits, a letter first",
        ),
        _every_pool(
            _ZONAL,
            "has(pool.zones) && size(pool.zones) > 0",
            f"zones are required in every pool of a {join_alternatives(_ZONAL)} cluster: list the zones that "
            "have its nodes",
        ),
        _every_pool(
            _BOUNDED,
            "!has(pool.minNodeCount) || has(pool.maxNodeCount)",
            f"maxNodeCount is required with minNodeCount where the source is {join_alternatives(_BOUNDED)}",
        ),
        _every_pool(
            _NEVER_EMPTY,
            "pool.nodeCount >= 1 && (!has(pool.minNodeCount) || pool.minNodeCount >= 1)",
            f"a pool of a {join_alternatives(_NEVER_EMPTY)} cluster has at least one node: raise nodeCount "
            "and minNodeCount to 1",
        ),
        _every_pool(
            _PROVISIONED,
            f"pool.nodeCount <= {MAX_CLOUD_POOL_NODES} && "
            f"(!has(pool.minNodeCount) || pool.minNodeCount <= {MAX_CLOUD_POOL_NODES}) && "
            f"(!has(pool.maxNodeCount) || pool.maxNodeCount <= {MAX_CLOUD_POOL_NODES})",
            f"a pool of a provisioned cluster has at most {MAX_CLOUD_POOL_NODES} nodes: "
            "divide it into several",
        ),
        _every_pool(
            _WITHOUT_SPOT,
            "!has(pool.spot) || !pool.spot",
            f"{join_alternatives(_WITHOUT_SPOT)} has no spot nodes: remove spot",
        ),
    )

    cluster: Annotated[ClusterOrigin, about("Source of the cluster.")]
    taints: Annotated[
        tuple[Taint, ...],
        about(
            "Taints of the cluster. Replicas are placed only if the ModelDeployment tolerates them.",
            max_length=64,
            keys=("key", "effect"),
        ),
    ] = ()
    pool_taints: Annotated[
        tuple[PoolTaint, ...],
        about("Taints of individual pools, to cordon or drain them.", max_length=16, keys=("pool", "key")),
    ] = ()
    drain: Annotated[DrainSettings, about("How many replicas a drain moves at a time.")] = DrainSettings()
    node_pools: Annotated[
        tuple[NodePool, ...],
        about("Node pools for engines.", min_length=1, max_length=8, keys=("name",)),
    ] = ()
    serving_stack: Annotated[ServingStack, about("Components on the cluster for serving models.")] = (
        ServingStack()
    )
    local_objects: Annotated[
        tuple[LocalObject, ...],
        about(
            "Secrets and ConfigMaps on the cluster, in the namespace of the team, that pods use directly. "
            "For other names, pods use copies of the objects in the same namespace on the control plane.",
            max_length=64,
            keys=("kind", "name"),
        ),
    ] = ()
    pod_keys: Annotated[
        PodKeys, about("Labels and annotations that the pods of engines can have on this cluster.")
    ] = PodKeys()
    pod_scheduler: (
        Annotated[
            PodScheduler,
            about(
                "Pod scheduler for new replicas. Existing replicas keep their scheduler. Default: "
                "kube-scheduler, without a queue."
            ),
        ]
        | None
    ) = None
    gateway: Annotated[GatewaySettings, about("Settings of the gateway on the cluster.")] = GatewaySettings()
    capacity_source: Annotated[
        CapacitySource,
        about(
            "Capacity for new replicas. Declared: the capacity of nodePools. Observed: the "
            "declared capacity without nodes and devices that are missing, tainted, or used by "
            "other pods. Existing replicas are not affected."
        ),
    ] = CapacitySource.DECLARED


class ProviderConfigReference(Model):
    """The provider configuration of the cluster."""

    name: Annotated[str, about("Name of the ClusterProviderConfig.")]


class ClusterGateway(Model):
    """The gateway on the cluster."""

    address: Annotated[
        str, about("Host name or IP address. Includes the port unless it is 80, or 443 with a serverName.")
    ]
    server_name: (
        Annotated[
            str,
            about("Server name in the gateway's certificate. Absent if requests use plain HTTP."),
        ]
        | None
    ) = None
    mutual_tls: Annotated[MutualTLSStatus, about("Rollout of mutual TLS.")] | None = msgspec.field(
        name="mutualTLS", default=None
    )


class GPUPool(Model):
    """A node pool for replicas."""

    name: Annotated[str, about("Name of the node pool.")]
    nodes: Annotated[int, about("Maximum number of nodes in the pool.", ge=0)] = 0
    accounting: Annotated[Accounting, about("Unit in which the scheduler counts the pool's capacity.")] = (
        Accounting.NODES
    )
    fabric: (
        Annotated[str, about("Network of the pool. Pools with the same value share one network.")] | None
    ) = None
    devices: Annotated[
        tuple[Device, ...],
        about("Devices of each node, from the class.", max_length=16, keys=("name",)),
    ] = ()
    pricing: Annotated[DevicePricing, about("Prices of the devices, from the pool or the class.")] | None = (
        None
    )
    spot: Annotated[bool, about("Whether the nodes are spot nodes.")] = False
    blocked_until: (
        Annotated[
            dt.datetime,
            about(
                "Time until which no new replicas are placed on the pool, because nodes are being "
                "reclaimed. Absent if the pool is not blocked."
            ),
        ]
        | None
    ) = None
    usable: (
        Annotated[
            UsableCapacity,
            about("Observed capacity for new replicas. Absent if the declared capacity applies."),
        ]
        | None
    ) = None


class Capabilities(Model):
    """Capabilities of the cluster."""

    dra: Annotated[bool, about("Whether pods can claim devices (resource.k8s.io/v1).")]
    leader_worker_set: Annotated[bool, about("Whether gangs can run (LeaderWorkerSet).")]
    inference_pool: Annotated[bool, about("Whether an endpoint picker can route requests (InferencePool).")]
    llm_inference_service: Annotated[bool, about("Whether KServe can run engines (LLMInferenceService).")] = (
        False
    )


class ClusterCredential(Model):
    """The credential of the kubeconfig."""

    expiration_time: Annotated[
        dt.datetime,
        about("Time at which the credential expires. It can be earlier than requested."),
    ]


class InferenceClusterStatus(Status):
    """Status of the cluster."""

    provider_config_ref: (
        Annotated[
            ProviderConfigReference, about("Provider configuration of the cluster. Only under Crossplane.")
        ]
        | None
    ) = None
    gateway: Annotated[ClusterGateway, about("The gateway on the cluster.")] | None = None
    cache: Annotated[CacheStorage, about("Storage for ModelCaches.")] | None = None
    gpu_pools: Annotated[
        tuple[GPUPool, ...],
        about("Node pools for replicas.", max_length=8, keys=("name",)),
    ] = ()
    namespace: Annotated[str, about("Namespace of the objects that provision the cluster.")] | None = None
    capabilities: (
        Annotated[
            Capabilities, about("Capabilities of the cluster. Absent until the cluster has been observed.")
        ]
        | None
    ) = None
    credential: (
        Annotated[
            ClusterCredential,
            about("Expiry of the token in the kubeconfig. Absent if no expiry is known."),
        ]
        | None
    ) = None
    drain: Annotated[DrainStatus, about("Progress of a drain, if any.")] | None = None
    eviction_notices: Annotated[
        tuple[EvictionNotice, ...],
        about(
            "Nodes that the cloud is about to reclaim, earliest deadline first. At most "
            f"{MAX_NOTICES}. Replicas on these nodes are replaced.",
            max_length=MAX_NOTICES,
            keys=("node",),
        ),
    ] = ()
    unreachable_since: (
        Annotated[
            dt.datetime, about("Time at which the API server stopped answering. Absent while it answers.")
        ]
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
    spec: Annotated[InferenceClusterSpec, about("Source and node pools of the cluster.")]
    status: Annotated[InferenceClusterStatus, about("Status of the cluster.")] = InferenceClusterStatus()

    def cordon(self, pool: str = "") -> Cordon:
        """Return what the cluster is closed for, or a pool of it, without the cluster's own cordon."""
        taints = [taint.key for taint in self.spec.pool_taints if taint.pool == pool] if pool else ()
        keys = taints if pool else [taint.key for taint in self.spec.taints]
        return find_strongest(CORDONS[key] for key in keys if key in CORDONS)

    def is_draining(self) -> bool:
        """Return True if the cluster or a pool of it is being drained."""
        cordons = (self.cordon(), *(self.cordon(taint.pool) for taint in self.spec.pool_taints))
        return Cordon.DRAINING in cordons

    def find_region(self) -> str:
        """Return its region: the value of its label, or else the cloud's name for it; empty if it has none.

        Only the label is the platform's own name, so the label counts where both are there.
        """
        if labeled := self.metadata.labels.get(labels.REGION):
            return labeled
        origin = self.spec.cluster
        if origin.source is Source.EXISTING:
            return ""
        cloud = Cloud(str(origin.source))
        settings = getattr(origin, cloud.value.lower())
        named = get_traits(cloud).region_setting
        return str(getattr(settings, named)) if named and settings is not None else ""
