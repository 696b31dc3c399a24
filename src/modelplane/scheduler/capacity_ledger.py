"""Ledger: the free capacity of every pool, which is the published capacity less that held by replicas.

A replica holds the capacity that it was placed with, even if its deployment has changed since. A member takes
a node for each of its pods and copies, or, if its pool counts devices, the devices that it claims: whole
GPUs, or MIG partitions, which a class lists as devices of their own. A member without claims takes nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from modelplane.api.fields.cluster.node_pools import Accounting
from modelplane.scheduler.filters.device_requests import derive_pod_demand
from modelplane.scheduler.free_capacity import (
    DeviceCapacity,
    FreeCapacity,
    Group,
    Load,
    NodeCapacity,
    PodDemand,
)
from modelplane.scheduler.placement.cost import Cost, compute_cost, compute_cost_of_nodes, sum_costs
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.quotas import DeviceKey
from modelplane.scheduler.search.identity_map import IdentityMap
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Cluster, Device, PlacedEngine, Pool, Replica, ResolvedRequest


def count_nodes(engines: Iterable[PlacedEngine]) -> Counter[str]:
    """Return the nodes that placed engines take in pools that count nodes, by pool."""
    nodes: Counter[str] = Counter()
    for engine in engines:
        for member in engine.members:
            if member.claims:
                nodes[member.pool] += member.pods * engine.copies
    return nodes


_NONE: Final[Mapping[Group, int]] = {}
_Claims: TypeAlias = tuple[ResolvedRequest, ...]
_Entry: TypeAlias = tuple[Sequence[PlacedEngine], int, Sequence[PlacedEngine]]
"""Sign (1 taken, -1 returned) and engines, which may share capacity that is counted already."""


class _Account(msgspec.Struct):
    """The running total of the entries of a cluster's log."""

    summed: int = 0
    nodes: Counter[str] = msgspec.field(default_factory=Counter)
    groups: dict[str, Counter[Group]] = {}


class Ledger:
    """The capacity held on every cluster."""

    def __init__(self, replicas: Iterable[Replica], selection: Selection, budget: SearchBudget) -> None:
        """Charge existing replicas; one that is being deleted holds its capacity until it is gone."""
        self._selection = selection
        self._budget = budget
        # Engines of existing replicas and later changes, per cluster; a cluster is summed up when it is read.
        self._there: defaultdict[str, list[Sequence[PlacedEngine]]] = defaultdict(list)
        self._log: dict[str, list[_Entry]] = {}
        self._accounts: dict[str, _Account] = {}
        self._demands: IdentityMap[tuple[Device, ...], dict[_Claims, PodDemand]] = IdentityMap()
        for replica in replicas:
            self._there[replica.cluster].append(replica.engines)

    def charge(
        self, cluster: str, engines: Sequence[PlacedEngine], beyond: Sequence[PlacedEngine] = ()
    ) -> None:
        """Take capacity for engines, as far as they need more than others, which have theirs already."""
        self._log.setdefault(cluster, []).append((engines, 1, beyond))

    def refund(self, cluster: str, engines: Sequence[PlacedEngine]) -> None:
        """Give capacity back."""
        self._log.setdefault(cluster, []).append((engines, -1, ()))

    def list_capacities(self, cluster: Cluster, without: Sequence[PlacedEngine] = ()) -> list[FreeCapacity]:
        """Return the capacity of each pool, in published order, for the replica that has engines there.

        An overcommitted pool leaves it what it has.
        """
        account = self._sum(cluster)
        if account is None:
            return [self._capacity(pool, 0, _NONE, without) for pool in cluster.pools]
        return [
            self._capacity(pool, account.nodes[pool.name], account.groups.get(pool.name, _NONE), without)
            for pool in cluster.pools
        ]

    def list_declared(self, cluster: Cluster, gone: Sequence[PlacedEngine] = ()) -> list[FreeCapacity]:
        """Return the capacity that is declared, whatever was observed, as if engines were gone."""
        account = self._sum(cluster) or _Account()
        leaving = count_nodes(gone)
        return [
            self._capacity(
                replace(pool, usable=None) if pool.usable else pool,
                account.nodes[pool.name] - leaving[pool.name],
                account.groups.get(pool.name, _NONE),
                gone if pool.accounting is Accounting.DEVICES else (),
            )
            for pool in cluster.pools
        ]

    def is_full(self, cluster: Cluster) -> bool:
        """True if no pool of a cluster has a free node, so that no replica fits."""
        account = self._sum(cluster)
        if account is None or any(pool.accounting is not Accounting.NODES for pool in cluster.pools):
            return False
        return all(account.nodes[pool.name] >= pool.usable_nodes for pool in cluster.pools)

    def is_growing(
        self, cluster: Cluster, engines: Sequence[PlacedEngine], held_now: Sequence[PlacedEngine]
    ) -> bool:
        """True if engines take capacity, in any pool, that the held ones do not."""
        nodes = count_nodes(engines) - count_nodes(held_now)
        for pool in cluster.pools:
            if pool.accounting is Accounting.NODES:
                if nodes[pool.name]:
                    return True
            elif self._groups(engines, pool) - self._groups(held_now, pool):
                return True
        return False

    def compute_cost(self, cluster: Cluster, engines: Sequence[PlacedEngine], currency: str) -> Cost:
        """Return the cost of placed engines, without what they strand."""
        nodes = count_nodes(engines)
        costs = []
        for pool in cluster.pools:
            if pool.accounting is Accounting.NODES:
                costs.append(compute_cost_of_nodes(pool, nodes[pool.name], currency))
            else:
                costs += (
                    compute_cost(pool, Load(group, copies), currency)
                    for group, copies in self._groups(engines, pool).items()
                )
        return sum_costs(costs)

    def count_devices(self, cluster: Cluster, engines: Sequence[PlacedEngine]) -> Counter[DeviceKey]:
        """Return the devices that placed engines take: all those of whole nodes, or those claimed."""
        nodes = count_nodes(engines)
        taken: Counter[DeviceKey] = Counter()
        for pool in cluster.pools:
            if pool.name in nodes:
                taken.update(self.count_devices_in(pool, engines))
        return taken

    def count_devices_in(self, pool: Pool, engines: Sequence[PlacedEngine]) -> Counter[DeviceKey]:
        """Return the devices that placed engines take in one pool."""
        keys = [DeviceKey(pool.class_name, device.name) for device in pool.devices]
        taken: Counter[DeviceKey] = Counter()
        if pool.accounting is Accounting.NODES:
            count = count_nodes(engines)[pool.name]
            for key, device in zip(keys, pool.devices, strict=True):
                taken[key] += device.count * count
            return +taken
        for group, copies in self._groups(engines, pool).items():
            for pod, pods in group.pods:
                for key, need in zip(keys, pod.need, strict=True):
                    taken[key] += need * pods * copies
        return +taken

    def _capacity(
        self, pool: Pool, nodes: int, groups: Mapping[Group, int], without: Sequence[PlacedEngine]
    ) -> FreeCapacity:
        have = pool.usable_nodes
        if pool.accounting is Accounting.NODES:
            if not without:
                return NodeCapacity(have, have - nodes)
            return NodeCapacity(have, max(have - nodes, 0) + count_nodes(without)[pool.name])
        left = Counter(groups)
        left.subtract(self._groups(without, pool))
        counts = [device.count for device in pool.devices]
        loads = (Load(group, count) for group, count in left.items())
        return DeviceCapacity.build(have, counts, loads, pool.usable.lacking if pool.usable else ())

    def _sum(self, cluster: Cluster) -> _Account | None:
        """Return the account of a cluster, or None if nothing was ever charged there."""
        account = self._accounts.get(cluster.name)
        log = self._log.get(cluster.name, ())
        if account is None:
            there = self._there.get(cluster.name)
            if there is None and not log:
                return None
            account = self._accounts[cluster.name] = _Account()
            for engines in there or ():
                self._add(account, cluster, (engines, 1, ()))
        for entry in log[account.summed :]:
            self._add(account, cluster, entry)
        account.summed = len(log)
        return account

    def _add(self, account: _Account, cluster: Cluster, entry: _Entry) -> None:
        engines, sign, beyond = entry
        taken = count_nodes(engines)
        if beyond:
            taken -= count_nodes(beyond)
        for name, nodes in taken.items():
            account.nodes[name] += sign * nodes
        for pool in cluster.pools:
            if pool.accounting is Accounting.DEVICES:
                groups = account.groups.setdefault(pool.name, Counter())
                for group, copies in (self._groups(engines, pool) - self._groups(beyond, pool)).items():
                    groups[group] += sign * copies

    def _groups(self, engines: Iterable[PlacedEngine], pool: Pool) -> Counter[Group]:
        """Return the groups of pods that engines have in a pool whose devices are counted."""
        groups: Counter[Group] = Counter()
        for engine in engines:
            pods = sorted(
                (self._demand(member.claims, pool), member.pods)
                for member in engine.members
                if member.claims and member.pool == pool.name
            )
            if pods:
                groups[Group(tuple(pods))] += engine.copies
        return groups

    def _demand(self, claims: _Claims, pool: Pool) -> PodDemand:
        demands = self._demands.setdefault(pool.devices, {})
        if claims not in demands:
            demands[claims] = derive_pod_demand(claims, pool.devices, self._selection, self._budget)
        return demands[claims]
