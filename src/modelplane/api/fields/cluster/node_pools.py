"""The node pools of a cluster: their nodes, how many, and the network between them."""

import datetime as dt
from enum import StrEnum
from typing import Annotated, Final, Literal

from modelplane.api import labels
from modelplane.api.clouds.cloud_rows import list_clouds_where
from modelplane.api.fields.cluster.devices import DevicePricing
from modelplane.api.listing import join_alternatives
from modelplane.api.meta import Model
from modelplane.api.schema.fields import DNS_SUBDOMAIN, LABEL_VALUE, QUALIFIED_NAME, Rule, about

MAX_NOTICES: Final = 64
"""Notices in the status of a cluster."""


class EvictionNotice(Model):
    """A node that the cloud is about to reclaim."""

    node: Annotated[str, about("Name of the node.", max_length=253)]
    pool: Annotated[str, about("Name of the node pool.", max_length=63)]
    cause: Annotated[str, about("Taint, annotation, or condition of the node that announces the reclaim.")]
    noticed_at: Annotated[dt.datetime, about("Time at which the notice was first seen.")]
    deadline: Annotated[dt.datetime, about("Time at which the node is expected to be gone.")]


class ReplicaEviction(Model):
    """An eviction notice of a node that runs pods of the replica, or ran them until they stopped serving."""

    node: Annotated[str, about("Name of the node.", max_length=253)]
    cause: Annotated[str, about("Taint, annotation, or condition of the node that announces the reclaim.")]
    deadline: Annotated[dt.datetime, about("Time at which the node is expected to be gone.")]


_ZONAL = join_alternatives(list_clouds_where(lambda cloud: cloud.needs_zones), "and")
CAPACITY_BLOCKS = join_alternatives(list_clouds_where(lambda cloud: cloud.has_capacity_blocks), "and")
"""The clouds that have capacity blocks, as sentences name them."""


class FabricType(StrEnum):
    """The network between the nodes of a pool."""

    NONE = "None"
    EFA = "EFA"
    INFINIBAND = "InfiniBand"


class Accounting(StrEnum):
    """Unit of a pool's capacity: nodes or devices."""

    NODES = "Nodes"
    DEVICES = "Devices"


class NodeTaintEffect(StrEnum):
    """Effect of a node's taint on pods that do not tolerate it (Kubernetes, ``core/v1``)."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class CapacityBlock(Model):
    """Reserved AWS capacity."""

    capacity_reservation_id: Annotated[
        str,
        about(
            "ID of the reservation, such as cr-0a1b.", min_length=4, max_length=64, pattern="^cr-[0-9a-f]+$"
        ),
    ]


class InfiniBand(Model):
    """An InfiniBand network."""

    fabric: Annotated[
        str, about("ID of the physical Nebius fabric, such as fabric-2.", min_length=1, max_length=63)
    ]


class NodeTaint(Model):
    """A taint of every node in a pool."""

    key: Annotated[str, about("Key of the taint.", min_length=1, max_length=317, pattern=QUALIFIED_NAME)]
    value: Annotated[str, about("Value of the taint.", max_length=63, pattern=LABEL_VALUE)] = ""
    effect: Annotated[NodeTaintEffect, about("Effect on pods that do not tolerate the taint.")]


class Fabric(Model):
    """The network between the nodes of a pool."""

    name: (
        Annotated[
            str,
            about(
                "Name of the network. Pools of a cluster with the same type and name share one "
                "network, so the members of a gang can be in different pools. Default: the pool "
                "shares its network with no other pool.",
                min_length=1,
                max_length=63,
                pattern=LABEL_VALUE,
            ),
        ]
        | None
    ) = None
    type: Annotated[
        FabricType, about("Type of the network. Use EFA for EKS, and InfiniBand for AKS and Nebius.")
    ] = FabricType.NONE
    infiniband: (
        Annotated[InfiniBand, about("The InfiniBand network. Required on Nebius, and ignored on AKS.")] | None
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

POOL_NAME_TEXT = f"Name of the pool, and value of the label {labels.POOL} on the nodes"
NODE_COUNT_TEXT = "Number of nodes. In an autoscaled pool, the initial number."
FEWEST_TEXT = "Minimum number of nodes in an autoscaled pool."
MOST_TEXT = "Maximum number of nodes in an autoscaled pool."
"""On the fields of every kind of pool."""

ZoneName = Annotated[str, about("Name of a zone.", min_length=1, max_length=63)]

MAX_POOL_NODES = 5000
"""Nodes of one pool: as many as Kubernetes supports in a cluster (Considerations for large clusters)."""

MAX_CLOUD_POOL_NODES = 1000
"""Nodes of one provisioned pool."""

AKS_POOL_NAME = "^[a-z][a-z0-9]{0,11}$"
"""Names of pools that Azure accepts."""

SPOT_TEXT = "Whether the nodes are spot nodes, which cost less and can be reclaimed by the cloud at any time."
"""On the field of every kind of pool."""

SPOT_TAINT = NodeTaint(
    key="kubernetes.azure.com/scalesetpriority", value="spot", effect=NodeTaintEffect.NO_SCHEDULE
)
"""Taint that AKS puts on spot nodes, which the pods of spot pools tolerate.

Source: AKS, "Add an Azure Spot node pool to an Azure Kubernetes Service (AKS) cluster".
"""

NOT_RESERVED_RULE = Rule(
    "!has(self.spot) || !self.spot || !has(self.capacityBlock)",
    "nodes of a capacity block are reserved and not spot: remove spot or capacityBlock",
)
"""On a pool."""

_SIZE_RULE = Rule(
    f"[self.nodeCount, has(self.minNodeCount) ? self.minNodeCount : 0, "
    f"has(self.maxNodeCount) ? self.maxNodeCount : 0].all(count, count <= {MAX_POOL_NODES})",
    f"a pool has at most {MAX_POOL_NODES} nodes: divide it into several",
)
"""A rule and no limits of the fields, so that a cluster that is stored already can still be read."""


class NodePool(Model):
    """A pool of identical nodes of one class."""

    __rules__ = (BOUNDS_RULE, _SIZE_RULE, NOT_RESERVED_RULE)

    name: Annotated[
        str,
        about(
            f"{POOL_NAME_TEXT}. On an Existing cluster, you set this label yourself.",
            min_length=1,
            max_length=40,
            pattern=LABEL_VALUE,
        ),
    ]
    class_name: Annotated[
        str,
        about("InferenceClass of the nodes.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN),
    ]
    node_count: Annotated[int, about(f"{NODE_COUNT_TEXT} At most {MAX_POOL_NODES}.", ge=0)] = 1
    min_node_count: Annotated[int, about(FEWEST_TEXT, ge=0)] | None = None
    max_node_count: (
        Annotated[
            int,
            about(
                f"{MOST_TEXT} At most {MAX_POOL_NODES}. Default: the pool is not autoscaled.",
                ge=1,
            ),
        ]
        | None
    ) = None
    zones: Annotated[
        tuple[ZoneName, ...],
        about(f"Zones of the nodes. {_ZONAL} need at least one zone.", max_length=8, atomic=True),
    ] = ()
    capacity_block: (
        Annotated[
            CapacityBlock,
            about(f"AWS Capacity Block that provides the nodes of the pool, for {CAPACITY_BLOCKS}."),
        ]
        | None
    ) = None
    fabric: (
        Annotated[
            Literal["None", "EFA"] | Fabric,
            about("Network between the nodes: an object, or the string None or EFA.", any_of=_FABRIC_FORMS),
        ]
        | None
    ) = None

    accounting: Annotated[
        Accounting,
        about(
            "How the scheduler counts capacity. Nodes: a pod that claims devices takes a whole node. "
            "Devices: a pod takes only the devices that it claims, so replicas can share nodes."
        ),
    ] = Accounting.NODES
    taints: Annotated[
        tuple[NodeTaint, ...],
        about(
            "Taints of the nodes, in addition to nvidia.com/gpu. Modelplane adds tolerations for "
            "them to the pods.",
            max_length=16,
            keys=("key", "effect"),
        ),
    ] = ()
    pricing: (
        Annotated[
            DevicePricing,
            about("Prices of the devices in this pool. They replace the prices of the class."),
        ]
        | None
    ) = None
    spot: Annotated[
        bool,
        about(
            f"{SPOT_TEXT} Only deployments with spec.placement.spot place replicas on spot pools. "
            "On an Existing cluster, set this to describe the nodes."
        ),
    ] = False

    def list_tolerated(self) -> tuple[NodeTaint, ...]:
        """Return the taints of its nodes beside nvidia.com/gpu, with what the cloud adds."""
        return (*self.taints, SPOT_TAINT) if self.spot and SPOT_TAINT not in self.taints else self.taints

    def build_interconnect(self) -> Fabric:
        """Return ``fabric`` in its object form, whichever way it was written."""
        if isinstance(self.fabric, Fabric):
            return self.fabric
        return Fabric() if self.fabric is None else Fabric(type=FabricType(self.fabric))

    def find_fabric_identity(self) -> str | None:
        """Return the common property of joined pools; None for a pool that no other is joined to."""
        fabric = self.build_interconnect()
        if fabric.name:
            return f"{fabric.type}/{fabric.name}"
        return f"{fabric.type}/{fabric.infiniband.fabric}" if fabric.infiniband else None
