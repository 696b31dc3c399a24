"""Nodes: conventions that the pools of every cloud share."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec

from modelplane.api import labels
from modelplane.api.clouds.cloud_cluster import PoolRole
from modelplane.api.fields.cluster.node_pools import NodePool, NodeTaint, NodeTaintEffect

SYSTEM: Final = "system"
"""Name of the pool for everything but models. Source: Modelplane."""

WITHOUT_LATE_INITIALIZATION: Final = ("Observe", "Create", "Update", "Delete")
"""Management policies of a pool: the number of nodes that an autoscaler sets is not taken over into the
desired state. Source: Crossplane, "Managed Resources", management policies."""

GPU_TAINT: Final = NodeTaint(key="nvidia.com/gpu", value="true", effect=NodeTaintEffect.NO_SCHEDULE)
"""Only pods that claim GPUs run on GPU nodes. Source: Modelplane."""

EFFECTS: Final = {
    NodeTaintEffect.NO_SCHEDULE: "NO_SCHEDULE",
    NodeTaintEffect.PREFER_NO_SCHEDULE: "PREFER_NO_SCHEDULE",
    NodeTaintEffect.NO_EXECUTE: "NO_EXECUTE",
}
"""Effects of taints, as clouds write them. Source: GKE API, ``NodeTaint.Effect``; EKS API, ``Taint``."""


class _Pool(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def role(self) -> PoolRole: ...

    @property
    def gpu(self) -> Any: ...

    @property
    def taints(self) -> tuple[NodeTaint, ...]: ...

    @property
    def node_count(self) -> int: ...

    @property
    def min_node_count(self) -> int | None: ...

    @property
    def max_node_count(self) -> int | None: ...


def label_and_taint(pool: _Pool) -> tuple[dict[str, str], tuple[NodeTaint, ...]]:
    """Return the labels and the taints of the nodes of a pool."""
    if pool.role is not PoolRole.GPU or pool.gpu is None:
        return {labels.POOL: pool.name}, pool.taints
    return {labels.POOL: pool.name, labels.GPU: pool.gpu.accelerator_type}, (GPU_TAINT, *pool.taints)


def at_first(for_provider: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field for values that only the first version of a resource has; none if there are none."""
    return {"initProvider": for_provider} if for_provider else {}


def taints(listed: Iterable[NodeTaint]) -> list[dict[str, str]]:
    """Return taints in the form of a cloud."""
    return [{"key": taint.key, "value": taint.value, "effect": EFFECTS[taint.effect]} for taint in listed]


Pool = TypeVar("Pool", bound=_Pool)


def system_pool(given: Iterable[Pool], make: Callable[..., Pool], settings: Any) -> Pool:
    """Return the system pool: the given one of that name, or else that of the settings.

    ``make`` is the type of the pools, which have every field of the settings.
    """
    from_settings = {"node_count": settings.min_node_count, **msgspec.structs.asdict(settings)}
    made = make(name=SYSTEM, role=PoolRole.SYSTEM, **from_settings)
    return next((pool for pool in given if pool.name == SYSTEM), made)


def with_system(given: tuple[Pool, ...], make: Callable[..., Pool], settings: Any) -> tuple[Pool, ...]:
    """Return the pools of a cluster, with the system pool first unless it is one of them."""
    system = system_pool(given, make, settings)
    return given if system in given else (system, *given)


def list_user_pools(given: Iterable[Pool]) -> tuple[Pool, ...]:
    """Return the pools that are not the system pool."""
    return tuple(pool for pool in given if pool.name != SYSTEM)


def system_problems(pool: Any) -> Iterator[str]:
    """Yield what is wrong with the settings of a system pool."""
    if pool.min_node_count > pool.max_node_count:
        yield "systemPool: minNodeCount is greater than maxNodeCount"


def first_size_problems(pools: Iterable[_Pool]) -> Iterator[str]:
    """Yield the pools whose first size is their minimum, and greater than their maximum."""
    for pool in pools:
        most = pool.max_node_count
        if most is not None and pool.min_node_count is None and pool.node_count > most:
            yield f'pool "{pool.name}": nodeCount is greater than maxNodeCount, and minNodeCount is absent'


def zone_problems(title: str, pool: NodePool) -> Iterator[str]:
    """Yield what is wrong with a pool that names zones of a cloud without any."""
    if pool.zones:
        yield f"{title} does not support zones: remove zones"
