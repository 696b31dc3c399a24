"""An InferenceCluster as the scheduler sees it: labels, pools, taints, and what was found installed there.

One rule: everything here was published or observed; nothing is guessed by the scheduler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelplane.api.inference_cluster import Accounting
from modelplane.scheduler.device import Device
from modelplane.scheduler.taint import Taint


@dataclass(frozen=True, slots=True)
class Pool:
    """A node pool: `nodes` is the most it may have, `devices` what each node carries, in published order.

    Pools of a cluster with the same `fabric`, unless it is empty, are joined by one network.
    """

    name: str
    nodes: int
    devices: tuple[Device, ...] = ()
    accounting: Accounting = Accounting.NODES
    fabric: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the cluster can run: DRA claims, LeaderWorkerSets (gangs), InferencePools (endpoint pickers)."""

    dra: bool = True
    leader_worker_set: bool = True
    inference_pool: bool = True


@dataclass(frozen=True, slots=True)
class Cluster:
    """One InferenceCluster. `not_ready` says why it is not `ready`, as part of a sentence.

    `cache_storage` is the StorageClass of volumes that many pods may mount; without it there are no caches.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    ready: bool = True
    not_ready: str = ""
    gateway_address: str = ""
    pools: tuple[Pool, ...] = ()
    taints: tuple[Taint, ...] = ()
    capabilities: Capabilities = Capabilities()
    cache_storage: str = ""
