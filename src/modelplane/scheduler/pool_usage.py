"""Capacity of each pool, in total and in use.

The numbers are those of the ledger that placements use.
"""

from collections.abc import Collection, Iterator

import msgspec

from modelplane.api.fields.cluster.node_pools import Accounting
from modelplane.scheduler.capacity_ledger import Ledger
from modelplane.scheduler.diagnosis_building import describe_usage
from modelplane.scheduler.free_capacity import FreeCapacity, NodeCapacity
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Fleet, Pool


class Amount(msgspec.Struct, frozen=True):
    """An amount, as declared, in use, and usable; more may be in use than exist if the pool is overcommitted.

    Without an observation, all that is declared is usable.
    """

    name: str
    total: int
    taken: int
    usable: int

    @property
    def free(self) -> int:
        """The free amount, at least 0."""
        return max(self.usable - self.taken, 0)


class Usage(msgspec.Struct, frozen=True):
    """One pool, with its nodes if it counts nodes, or its devices by entry."""

    cluster: str
    pool: str
    accounting: Accounting
    nodes: int
    amounts: tuple[Amount, ...]
    observed: bool = False
    """True if what is usable was observed."""
    spot: bool = False
    """True if its nodes are spot."""
    why: str = ""
    """The cause for which not all that is declared is usable; empty if all is, or nothing was observed."""


def sum_usage(fleet: Fleet, names: Collection[str] | None = None) -> tuple[Usage, ...]:
    """Return the usage of every pool, or of those of named clusters, by cluster and in published order."""
    budget = SearchBudget()
    ledger = Ledger(fleet.replicas, Selection(budget), budget)
    clusters = (cluster for cluster in fleet.clusters if names is None or cluster.name in names)
    return tuple(
        Usage(
            cluster.name,
            pool.name,
            pool.accounting,
            pool.nodes,
            tuple(_amounts(pool, capacity)),
            pool.usable is not None,
            pool.spot,
            pool.usable.why if pool.usable else "",
        )
        for cluster in sorted(clusters, key=lambda cluster: cluster.name)
        for pool, capacity in zip(cluster.pools, ledger.list_capacities(cluster), strict=True)
    )


def list_overcommitted(fleet: Fleet) -> list[str]:
    """Return the pools of which replicas hold more than they have, in words."""
    budget = SearchBudget()
    ledger = Ledger(fleet.replicas, Selection(budget), budget)
    return [
        f'pool "{pool.name}": replicas use {describe_usage(pool, capacity)}'
        for cluster in fleet.clusters
        for pool, capacity in zip(cluster.pools, ledger.list_capacities(cluster), strict=True)
        if capacity.overcommitted
    ]


def _amounts(pool: Pool, capacity: FreeCapacity) -> Iterator[Amount]:
    if isinstance(capacity, NodeCapacity):
        yield Amount("nodes", pool.nodes, capacity.taken, capacity.nodes)
        return
    for entry, device in enumerate(pool.devices):
        total = device.count * pool.nodes
        yield Amount(device.name, total, capacity.count_taken(entry), capacity.count_usable(entry))
