"""What the pods of an engine take from a pool: whole nodes, or devices.

One rule: a demand is about one pool. Its vectors have one number for each device entry of the pool, in
published order.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Demand:
    """The devices that one pod takes from its node.

    Kubernetes chooses the devices when it binds the pod, and may choose otherwise than the scheduler did
    where several entries satisfy a request. `need` is one choice that serves the pod; `may` is the most that
    it can take of each entry; `exact` tells where it takes just that or nothing else.
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

    @property
    def size(self) -> int:
        """How many pods, and so how many nodes."""
        return sum(count for _, count in self.pods)


@dataclass(frozen=True, slots=True)
class Load:
    """What an engine puts on one pool: so many equal groups of pods that claim devices."""

    group: Group
    copies: int

    @property
    def nodes(self) -> int:
        """The nodes that it takes where nodes are counted whole."""
        return self.group.size * self.copies
