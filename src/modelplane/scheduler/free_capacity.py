"""Free capacity of a pool, and whether a group of pods fits in it.

A fit must hold whichever nodes kube-scheduler chooses, in any order in which it binds the pods, and again
after any of them restarts.

*Nodes counted whole.* A pool of N nodes takes N pods that claim devices. The other pods are then on at most
N - 1 nodes, so every pod finds a node whose devices are all free.

*Devices counted.* Pods share nodes, so free devices may be scattered: two nodes with one free device each
have no place for a pod that needs two. For each pod p, the number of nodes that the others can close to it is
bounded. A node is closed only if, of some entry with D devices of which p needs s, at least D - s + 1 are
taken. Let w be the least sum, not below that, that pods of this pool can make up. A pod that takes at most u
of the entry contributes at most u / w, and at most 1, to closing a node, so the others together close at most
the sum of their contributions (for each pod, of the entry where it is largest), rounded down. p finds a place
while

    closed nodes + pods of its own gang, which are on nodes of their own, are at most N.

Devices of a node that no pod of the pool can have are taken too: of each such node, as if by one pod that is
there already. Any node may be left out of the count, because what other pods take of it they do not take of
the rest.

For pods of one size this is exact: no capacity is lost. For mixed sizes it is safe: a refused pod would fit
only if kube-scheduler chose its nodes well.

A vector of devices has one number for each device entry of the pool, in published order.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from math import lcm
from operator import or_
from typing import NamedTuple, TypeAlias

import msgspec


class PodDemand(msgspec.Struct, frozen=True, order=True):
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

    pods: tuple[tuple[PodDemand, int], ...]
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


class NodeCapacity(NamedTuple):
    """A pool whose nodes are counted whole. `free` is negative if the pool is overcommitted."""

    nodes: int
    free: int

    def take(self, load: Load) -> "NodeCapacity | None":
        """Return the capacity without the load, or None if it does not fit."""
        left = self.free - load.nodes
        return NodeCapacity(self.nodes, left) if left >= 0 else None

    def count_missing(self, load: Load) -> int:
        """Return the number of further nodes that the load needs."""
        return max(load.nodes - self.free, 0)

    @property
    def taken(self) -> int:
        """The nodes that replicas hold."""
        return self.nodes - self.free

    @property
    def overcommitted(self) -> bool:
        """True if replicas hold more than the pool has."""
        return self.free < 0

    def add_nodes(self, nodes: int) -> "NodeCapacity":
        """Return the capacity as it would be with more nodes."""
        return NodeCapacity(self.nodes + nodes, self.free + nodes)


class DeviceCapacity(msgspec.Struct, frozen=True, gc=False):
    """A pool whose devices are counted. `devices` are those of one node, by entry.

    `lacking` are devices that cannot be had: vectors by entry, and how many nodes lack them.
    """

    nodes: int
    devices: tuple[int, ...]
    groups: tuple[tuple[Group, int], ...] = ()
    lacking: tuple[tuple[tuple[int, ...], int], ...] = ()

    @classmethod
    def build(
        cls,
        nodes: int,
        devices: Sequence[int],
        loads: Iterable[Load],
        lacking: tuple[tuple[tuple[int, ...], int], ...] = (),
    ) -> "DeviceCapacity":
        """Return the capacity that loads leave, fitting or not."""
        return cls(nodes, tuple(devices), _add((), loads), lacking)

    def take(self, load: Load) -> "DeviceCapacity | None":
        """Return the capacity without the load, or None if a pod might find no node."""
        capacity = DeviceCapacity(self.nodes, self.devices, _add(self.groups, (load,)), self.lacking)
        return None if capacity.overcommitted else capacity

    def count_missing(self, load: Load) -> int:
        """Return the number of further nodes that the load needs; 0 also if no number suffices."""
        groups = _add(self.groups, (load,))
        capacity = DeviceCapacity(self.nodes, self.devices, groups, self.lacking)
        if not all(capacity._ever(group) for group, _ in groups):
            return 0
        return max(0, *(capacity._count_nodes(group) - self.nodes for group, _ in groups))

    @property
    def overcommitted(self) -> bool:
        """True if a pod might find no node."""
        return any(not self._ever(group) or self._count_nodes(group) > self.nodes for group, _ in self.groups)

    def add_nodes(self, nodes: int) -> "DeviceCapacity":
        """Return the capacity as it would be with more nodes."""
        return DeviceCapacity(self.nodes + nodes, self.devices, self.groups, self.lacking)

    def count_usable(self, entry: int) -> int:
        """Return the number of devices of an entry on all nodes, without those that cannot be had."""
        return self.devices[entry] * self.nodes - sum(lacks[entry] * nodes for lacks, nodes in self.lacking)

    def count_taken(self, entry: int) -> int:
        """Return the number of devices of an entry that pods take."""
        return sum(
            demand.need[entry] * pods * copies for group, copies in self.groups for demand, pods in group.pods
        )

    def _ever(self, group: Group) -> bool:
        """True if each pod of a group fits on an empty node."""
        return all(
            need <= have
            for demand, _ in group.pods
            for need, have in zip(demand.need, self.devices, strict=True)
        )

    def _count_nodes(self, group: Group) -> int:
        """Return how many nodes make each pod of a group sure to find one."""
        others = [(other, copies - (other == group)) for other, copies in self.groups]
        # Missing devices are one group of pods, which are on different nodes.
        blockers = [
            (PodDemand(lacks, lacks, (True,) * len(lacks)), nodes) for lacks, nodes in self.lacking if nodes
        ]
        if blockers:
            others.append((Group(tuple(blockers)), 1))
        return group.size + max(self._count_closed_nodes(demand, others) for demand, _ in group.pods)

    def _count_closed_nodes(self, demand: PodDemand, others: Sequence[tuple[Group, int]]) -> int:
        """Return how many nodes other pods can close to a pod, at most."""
        closing = {
            entry: least
            for entry, need in enumerate(demand.need)
            if need and (least := self._least_closing(entry, need, others))
        }
        if not closing:
            return 0
        whole = lcm(*closing.values())
        # A pod is on one node, and does at most all of closing it.
        parts = sum(
            copies * pods * max(min(other.may[at] * (whole // least), whole) for at, least in closing.items())
            for group, copies in others
            if copies
            for other, pods in group.pods
        )
        return parts // whole

    def _least_closing(self, entry: int, need: int, others: Sequence[tuple[Group, int]]) -> int:
        """Return the fewest devices of an entry that close a node for a pod; 0 if none can."""
        have = self.devices[entry]
        within = (2 << have) - 1
        reachable = 1  # bit n: n devices of a node can be taken together
        for group, copies in others:
            steps = {step for demand, _ in group.pods for step in _steps(demand, entry) if step <= have}
            # No two pods of one gang are on one node.
            for _ in range(min(copies, have) if steps else 0):
                before = reachable
                reachable |= reduce(or_, (reachable << step for step in steps)) & within
                if reachable == before:
                    break
        return next((taken for taken in range(have - need + 1, have + 1) if reachable >> taken & 1), 0)


FreeCapacity: TypeAlias = NodeCapacity | DeviceCapacity


def _steps(demand: PodDemand, entry: int) -> Iterable[int]:
    most = demand.may[entry]
    if not most:
        return ()
    return (most,) if demand.exact[entry] else range(1, most + 1)


def _add(groups: tuple[tuple[Group, int], ...], loads: Iterable[Load]) -> tuple[tuple[Group, int], ...]:
    counts = dict(groups)
    for load in loads:
        counts[load.group] = counts.get(load.group, 0) + load.copies
    return tuple(sorted((group, copies) for group, copies in counts.items() if copies))


def estimate_steps(capacity: FreeCapacity) -> int:
    """Return the number of steps to compute the capacity that a load leaves."""
    return 1 if isinstance(capacity, NodeCapacity) else 30 + 3 * len(capacity.groups) ** 2
