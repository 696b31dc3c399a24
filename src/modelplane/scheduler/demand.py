"""Demand of pods: the devices that they take from the nodes of one pool.

A vector has one number for each device entry of the pool, in published order.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Demand:
    """The devices that one pod takes from its node.

    Kubernetes chooses the devices when it binds the pod. If several entries satisfy a request, it may choose
    others than the scheduler did. `need` is one choice that serves the pod; `may` is the most that it can
    take of each entry; `exact` is true for entries of which it takes exactly that or nothing.
    """

    need: tuple[int, ...]
    may: tuple[int, ...]
    exact: tuple[bool, ...]


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """Pods of one pool that Kubernetes puts on different nodes: one pod, or those of a gang.

    `pods` has the demand of each kind of pod, and how many of it there are.
    """

    pods: tuple[tuple[Demand, int], ...]
    size: int = field(init=False, repr=False, compare=False)
    """Number of pods, and of nodes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sum(count for _, count in self.pods))


@dataclass(frozen=True, slots=True)
class Load:
    """Load of an engine on one pool: equal groups of pods that claim devices."""

    group: Group
    copies: int

    @property
    def nodes(self) -> int:
        """The nodes that it takes in a pool that counts nodes."""
        return self.group.size * self.copies
