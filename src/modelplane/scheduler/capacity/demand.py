"""Demand of pods: the devices that they take from the nodes of one pool.

A vector has one number for each device entry of the pool, in published order.
"""

import msgspec


class Demand(msgspec.Struct, frozen=True, order=True):
    """The devices that one pod takes from its node.

    Kubernetes chooses the devices when it binds the pod. If several entries satisfy a request, it may choose
    others than the scheduler did. `need` is one choice that serves the pod; `may` is the most that it can
    take of each entry; `exact` is true for entries of which it takes exactly that or nothing.
    """

    need: tuple[int, ...]
    may: tuple[int, ...]
    exact: tuple[bool, ...]


class Group(msgspec.Struct, frozen=True, order=True):
    """Pods of one pool that Kubernetes puts on different nodes: one pod, or those of a gang.

    `pods` has the demand of each kind of pod, and how many of it there are.
    """

    pods: tuple[tuple[Demand, int], ...]
    size: int = 0
    """Number of pods, and of nodes, from `pods`."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "size", sum(count for _, count in self.pods))


class Load(msgspec.Struct, frozen=True):
    """Load of an engine on one pool: equal groups of pods that claim devices."""

    group: Group
    copies: int

    @property
    def nodes(self) -> int:
        """The nodes that it takes in a pool that counts nodes."""
        return self.group.size * self.copies
