"""Rejections of pools: why no choice of them has capacity for the engines, with the compared numbers."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from modelplane.api.listing import count_noun
from modelplane.api.rejected import Rejected
from modelplane.scheduler.free_capacity import FreeCapacity, Load, NodeCapacity
from modelplane.scheduler.placement.engine_options import Option
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, Engine, Pool


class PoolRejections(msgspec.Struct, frozen=True, gc=False):
    """The rejection of each pool of a cluster, by its name, for the first engine without an option."""

    engine: str
    pools: tuple[tuple[str, Rejected], ...]


Excluded: TypeAlias = tuple[Cluster, Rejected | PoolRejections]
"""A cluster that accepts no (further) replica, and why: as a whole, or because none of its pools does."""


def explain_no_option(
    engine: Engine, cluster: Cluster, refused: Sequence[Rejected | None], pin: tuple[str, ...] | None
) -> PoolRejections:
    """Explain an engine that has no option on a cluster, whatever is free."""
    pools = {pool: rejected for pool, rejected in enumerate(refused) if rejected is not None}
    return PoolRejections(engine.name, _named(pools, cluster, pin) or (("", Rejected(Reason.NO_POOLS)),))


def explain_no_capacity(
    engine: Engine,
    cluster: Cluster,
    refused: Sequence[Rejected | None],
    wanted: Sequence[Option],
    capacities: Sequence[FreeCapacity],
    pin: tuple[str, ...] | None,
) -> PoolRejections:
    """Explain an engine for which no option has capacity."""
    pools = {pool: rejected for pool, rejected in enumerate(refused) if rejected is not None}
    for option in wanted:
        for pool, load in option.loads:
            if capacities[pool].take(load) is None:
                pools[pool] = _full(cluster.pools[pool], capacities[pool], load)
    return PoolRejections(engine.name, _named(pools, cluster, pin))


def _named(
    pools: Mapping[int, Rejected], cluster: Cluster, pin: tuple[str, ...] | None
) -> tuple[tuple[str, Rejected], ...]:
    """Return the refusals of the pools that an engine may be in, by name in published order."""
    return tuple(
        (pool.name, pools[at])
        for at, pool in enumerate(cluster.pools)
        if at in pools and (pin is None or pool.name in pin)
    )


def explain_competition(
    engines: Sequence[Engine],
    cluster: Cluster,
    options: Sequence[Sequence[Option]],
    capacities: Sequence[FreeCapacity],
    outcome: str,
) -> PoolRejections:
    """Explain engines that each have capacity, but not together."""
    pools = sorted({pool for option in options for choice in option for pool, _ in choice.loads})
    names = ", ".join(engine.name for engine in engines)
    least = sum(min(sum(load.nodes for _, load in choice.loads) for choice in option) for option in options)
    return PoolRejections(
        names,
        tuple(
            (
                cluster.pools[pool].name,
                Rejected(
                    Reason.ENGINES_COMPETE,
                    names,
                    f"{outcome}: {_needed(capacities[pool], least)} in pool {cluster.pools[pool].name}",
                ),
            )
            for pool in pools
        ),
    )


def _needed(capacity: FreeCapacity, pods: int) -> str:
    if isinstance(capacity, NodeCapacity):
        return f"{count_noun(pods, 'node')} needed, {capacity.free} free"
    return f"{pods} pods to place, {count_noun(capacity.nodes, 'node')}"


def _full(pool: Pool, capacity: FreeCapacity, load: Load) -> Rejected:
    if isinstance(capacity, NodeCapacity):
        free = max(capacity.free, 0)
        usable = f" {capacity.nodes} usable nodes" if pool.usable else f" {capacity.nodes} nodes"
        detail = f"pool {pool.name} has {free} of{usable} free, {load.nodes} needed{_observed(pool)}"
        remedy = f"add {count_noun(capacity.count_missing(load), 'node')} to pool {pool.name}"
        return Rejected(Reason.NO_FREE_NODES, detail=detail, remedy=remedy)
    parts, scarce = [], False
    for entry, device in enumerate(pool.devices):
        needed = sum(demand.need[entry] * pods for demand, pods in load.group.pods) * load.copies
        if needed:
            total = capacity.count_usable(entry)
            free = max(total - capacity.count_taken(entry), 0)
            scarce = scarce or free < needed
            usable = "usable " if pool.usable else ""
            parts.append(f"{free} of {total} {usable}{device.name} free, {needed} needed")
    detail = f"pool {pool.name} has {' and '.join(parts)}"
    if not scarce:
        detail += ", which Kubernetes might not assign on one node"
    detail += _observed(pool)
    missing = capacity.count_missing(load)
    remedy = f"add {count_noun(missing, 'node')} to pool {pool.name}" if missing else ""
    return Rejected(Reason.NO_FREE_DEVICES, detail=detail, remedy=remedy)


def _observed(pool: Pool) -> str:
    return f" ({pool.usable.why})" if pool.usable and pool.usable.why else ""
