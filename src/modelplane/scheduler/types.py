"""The scheduler's view of the fleet: clusters, replicas, and the deployment to place.

Everything here was published or observed; the scheduler guesses nothing. Both published shapes of a kind
become one type before they get here.

Devices are declared per node: `count` is the number on one node. A replica belongs to the deployment whose
uid it carries, whatever names say. A snapshot is complete: a cluster that is not in it does not exist, and a
caller that cannot list everything does not schedule.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from modelplane.api.fields.cluster.devices import Claim
from modelplane.api.fields.cluster.drain_settings import Cordon, TaintEffect
from modelplane.api.fields.cluster.node_pools import Accounting
from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.api.fields.pods.engines import Role
from modelplane.api.fields.pods.pod_keys import DEFAULT_RULES, KeyRules, PodPart
from modelplane.api.model_deployment import TolerationOperator
from modelplane.cel.bindings import AttributeValue
from modelplane.scheduler.placement.capacity_type import CapacityType, Spot
from modelplane.scheduler.quotas import Quota


class Device(msgspec.Struct, frozen=True, gc=False):
    """One entry of an InferenceClass's devices, as the pool publishes it.

    Attribute keys are `name` (of the driver's domain) or `domain/name`; capacities are quantities as text.
    """

    name: str
    driver: str
    count: int
    claim: Claim = Claim.DRA
    device_class_name: str = ""
    attributes: Mapping[str, AttributeValue] = {}
    capacity: Mapping[str, str] = {}


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of an InferenceCluster."""

    key: str
    value: str
    effect: TaintEffect

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True):
    """A deployment's toleration. No `effect` tolerates both; `Exists` with an empty key, every taint."""

    key: str = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect | None = None


class Usable(msgspec.Struct, frozen=True, gc=False):
    """Part of a pool that new replicas may use, as observed: `nodes` nodes, less devices on some of them.

    `lacking` has vectors of devices that a node lacks, by entry of the pool, and how many nodes lack them.
    `why` is the cause in words that any user may read; empty if the pool is as declared.
    """

    nodes: int
    lacking: tuple[tuple[tuple[int, ...], int], ...] = ()
    why: str = ""


class Pool(msgspec.Struct, frozen=True, gc=False):
    """A node pool: `nodes` is its maximum size, `devices` are those of each node, in published order.

    `usable` is None if nothing was observed: then all of it may be used. It limits new replicas only.
    Pools of a cluster with the same `fabric`, unless it is empty, are joined by one network. `prices` are
    those of one device of each entry for an hour, in billionths of the `currency`, which is empty where no
    price is known. `class_name` is the InferenceClass of its nodes.
    """

    name: str
    nodes: int
    devices: tuple[Device, ...] = ()
    accounting: Accounting = Accounting.NODES
    fabric: str = ""
    currency: str = ""
    prices: tuple[int, ...] = ()
    cordon: Cordon = Cordon.NONE
    usable: Usable | None = None
    class_name: str = ""
    spot: bool = False
    blocked: str = ""
    """The reason for which it gets no new replica for a time; empty if it gets some."""

    @property
    def usable_nodes(self) -> int:
        """Nodes that new replicas may use."""
        return self.nodes if self.usable is None else min(self.usable.nodes, self.nodes)


class Capabilities(msgspec.Struct, frozen=True):
    """Optional kinds of the cluster: DRA, LeaderWorkerSets (gangs), InferencePools (endpoint pickers), and
    LLMInferenceServices, which `needs_llm_inference_service` if KServe is to run engines there.
    """

    dra: bool = True
    leader_worker_set: bool = True
    inference_pool: bool = True
    llm_inference_service: bool = True
    needs_llm_inference_service: bool = False


class Cluster(msgspec.Struct, frozen=True, gc=False):
    """One InferenceCluster. `not_ready` is the reason why it is not `ready`, as part of a sentence.

    `cache_storage` is the StorageClass of volumes that many pods may mount; without it there are no caches.
    `region` is empty if the cluster is in no region, and None if its region is unknown. A drain of it, or of
    its pools, moves at most `max_moving` replicas at a time, and none beyond `max_moving_in_fleet` of all.
    For a deployment with failover, `lost` says why its replicas there are to be replaced, `doubt` why what
    they report may not be true, and `returning` is true while the cluster answers again and is not trusted
    yet.
    """

    name: str
    labels: Mapping[str, str] = {}
    ready: bool = True
    not_ready: str = ""
    gateway_address: str = ""
    pools: tuple[Pool, ...] = ()
    taints: tuple[Taint, ...] = ()
    capabilities: Capabilities = Capabilities()
    cache_storage: str = ""
    region: str | None = ""
    pod_keys: KeyRules = DEFAULT_RULES
    cordon: Cordon = Cordon.NONE
    max_moving: int = 2
    max_moving_in_fleet: int = 5
    lost: str = ""
    doubt: str = ""
    returning: bool = False
    smallest_node: int = 0
    """Devices of the smallest node that a pod takes alone; 0 if some pods of a pool may share a node."""
    currencies: tuple[str, ...] = ()
    """The currency of each pool that has prices."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "smallest_node", min(map(_stranding, self.pools), default=0))
        msgspec.structs.force_setattr(
            self, "currencies", tuple(pool.currency for pool in self.pools if pool.currency)
        )


def _stranding(pool: Pool) -> int:
    """Return the devices of a node that no other pod can use beside one pod with claims."""
    if pool.accounting is Accounting.DEVICES:
        return 0
    devices = 0
    for device in pool.devices:
        if device.claim is not Claim.DRA:
            return 0
        devices += device.count
    return devices


class Phase(StrEnum):
    """The half of PrefillDecode serving that an engine does; NONE for a unified engine."""

    NONE = ""
    PREFILL = "Prefill"
    DECODE = "Decode"


class DeviceRequest(msgspec.Struct, frozen=True):
    """Devices that each pod of a member needs on its node; all `selectors` (CEL) must match one device."""

    name: str
    count: int = 1
    selectors: tuple[str, ...] = ()


class Member(msgspec.Struct, frozen=True):
    """One role of an engine. `pods` is how many of it one copy of the engine has, each on its own node."""

    role: Role = Role.STANDALONE
    pods: int = 1
    requests: tuple[DeviceRequest, ...] = ()


class Engine(msgspec.Struct, frozen=True):
    """A serving unit of a replica; it goes to one pool, or its members to pools that a fabric joins."""

    name: str
    copies: int = 1
    members: tuple[Member, ...] = (Member(),)
    phase: Phase = Phase.NONE

    @property
    def gang(self) -> bool:
        """True if pods of several nodes serve together."""
        return any(member.role is not Role.STANDALONE for member in self.members)


class CacheFootprint(msgspec.Struct, frozen=True):
    """The clusters with the deployment's ModelCache; `known` is false while the cache cannot be read.

    `regions` are those that may have it; empty allows all.
    """

    known: bool
    labels: Mapping[str, str] = {}
    regions: tuple[str, ...] = ()


class Priority(msgspec.Struct, frozen=True):
    """Priority of a deployment: the `value` of its PriorityClass, whose name is empty if it has none.

    `preempts` is true if its quota and its class let it displace replicas of lower priority. A `problem` is
    the reason why the class does not count; then no new replica is placed.
    """

    class_name: str = ""
    value: int = 0
    preempts: bool = False
    problem: str = ""


class Deployment(msgspec.Struct, frozen=True):
    """One ModelDeployment. `cache` is None if it refers to none. `most_per_hour` is in billionths.

    `regions` are those that may serve it; empty allows all. `picks` is true if an endpoint picker chooses the
    pod that serves a request. With `failover`, replicas that are not seen are not counted on. Without `spot`,
    no new replica is placed on a spot pool. `pod_parts` are what a cluster may refuse of its pods.
    """

    namespace: str
    name: str
    uid: str
    replicas: int
    engines: tuple[Engine, ...]
    cluster_selector: Mapping[str, str] = {}
    cache: CacheFootprint | None = None
    tolerations: tuple[Toleration, ...] = ()
    picks: bool = False
    regions: tuple[str, ...] = ()
    pod_parts: tuple[PodPart, ...] = ()
    policy: PlacementPolicy | None = None
    most_per_hour: int | None = None
    currency: str = ""
    failover: bool = False
    created: str = ""
    priority: Priority = Priority()
    spot: Spot | None = None

    @property
    def capacity_type(self) -> CapacityType:
        """The pools that its new replicas may use, beyond those that must be on demand."""
        return CapacityType.ON_DEMAND if self.spot is None else self.spot.capacity_type

    @property
    def order(self) -> tuple[str, str, str]:
        """Its turn among deployments of equal priority: the oldest first, and those without a time last."""
        return self.created or "~", self.namespace, self.name


class Template(msgspec.Struct, frozen=True):
    """What one revision of a deployment asks for: the fields of a Deployment."""

    engines: tuple[Engine, ...]
    cache: CacheFootprint | None = None
    picks: bool = False
    pod_parts: tuple[PodPart, ...] = ()


class Demand(msgspec.Struct, frozen=True):
    """Replicas that there are to be of one revision of a deployment.

    Without a `template` it is that of the deployment. `replicas` are the existing ones that have it. Those
    that are `pinned` count as well, and stay as they are, whether they fit or not; another demand takes them
    over in this order.
    """

    count: int
    template: Template | None = None
    replicas: frozenset[str] = frozenset()
    pinned: tuple[str, ...] = ()
    blocked: bool = False
    """True if none can be placed, because the template is not known."""


class Surge(msgspec.Struct, frozen=True):
    """Replicas in addition: at most so many, while others have another template.

    While it is `paused`, there are no more than exist.
    """

    most: int = 0
    paused: bool = False


class ResolvedRequest(msgspec.Struct, frozen=True, gc=False):
    """A device request that a pool's DRA device serves, as in the pods' ResourceClaim."""

    name: str
    device_class_name: str
    count: int
    selectors: tuple[str, ...]


class PlacedMember(msgspec.Struct, frozen=True, gc=False):
    """A member with its pool. One without claims needs no node of its own."""

    role: Role
    pool: str
    pods: int = 1
    claims: tuple[ResolvedRequest, ...] = ()


class PlacedEngine(msgspec.Struct, frozen=True, gc=False):
    """An engine with its members' pools."""

    name: str
    copies: int
    members: tuple[PlacedMember, ...]


class Replica(msgspec.Struct, frozen=True, gc=False):
    """One observed ModelReplica. `deleting` is true if its deletion was requested, at the time `deleted`.

    `created` is its creation time; both are texts that sort by time. `unreachable` is the reason why its
    cluster cannot be reached, and empty while it can. `draining` is true if it was told to withdraw its
    endpoint. `surge` is true if a rollout placed it in addition, `updating` if it is ready and an edit will
    restart it. `evicted` is the reason for which a node under it is taken back, by the time `evicted_at`.
    """

    namespace: str
    name: str
    deployment_uid: str
    deployment_name: str
    cluster: str
    index: int
    engines: tuple[PlacedEngine, ...]
    uid: str = ""
    ready: bool = False
    deleting: bool = False
    created: str = ""
    deleted: str = ""
    unreachable: str = ""
    draining: bool = False
    surge: bool = False
    updating: bool = False
    evicted: str = ""
    evicted_at: str = ""
    behind: bool = False
    """True if it has another template than the deployment."""

    @property
    def withdrawn(self) -> bool:
        """True if it was told to withdraw its endpoint, or is being deleted."""
        return self.draining or self.deleting

    @property
    def serves(self) -> bool:
        """True if it is known to get requests and to answer them, and to go on with it."""
        return self.answers and not self.updating

    @property
    def answers(self) -> bool:
        """True if it is known to get requests and to answer them; an edit may restart it."""
        return self.ready and not (self.withdrawn or self.unreachable)


class Fleet(msgspec.Struct, frozen=True):
    """Every InferenceCluster, ModelReplica of every deployment, and DeviceQuota, in any order.

    A replica that was decided and is not observed yet belongs here too: its capacity is taken. One that was
    created before `stuck_before` (text like `created`) and is not ready holds up no drain of others. One
    whose node is gone before `evicted_before` is withdrawn now, if another one serves.
    """

    clusters: tuple[Cluster, ...] = ()
    replicas: tuple[Replica, ...] = ()
    stuck_before: str = ""
    quotas: tuple[Quota, ...] = ()
    others: tuple[Deployment, ...] = ()
    """The other deployments, where priorities are in use: they may come first, or be displaced."""
    evicted_before: str = ""
