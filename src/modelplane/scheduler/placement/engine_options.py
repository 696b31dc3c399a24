"""Options: the pools of a cluster that each engine of a deployment can use.

An engine is in one pool, or its members are in pools that one fabric joins; a member is never split.
Different engines may use different pools. Free capacity plays no part here.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from operator import attrgetter
from typing import Final, TypeAlias

import msgspec

from modelplane.api.listing import count_noun
from modelplane.api.rejected import Rejected
from modelplane.scheduler.filters.cordon import refuse_pool
from modelplane.scheduler.filters.device_requests import Served, serve_requests
from modelplane.scheduler.free_capacity import Group, Load
from modelplane.scheduler.placement.capacity_type import CapacityType
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.placement.spot import check_capacity_type
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.search.identity_map import IdentityMap, number_by_value
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Deployment, Device, Engine, Member, Pool, ResolvedRequest

Kinds: TypeAlias = tuple[Hashable, ...]
"""The properties that distinguish the pools of a cluster, without name and free capacity."""

_DEVICES: Final = attrgetter("devices")
_OPENNESS: Final = attrgetter("cordon", "spot", "blocked")


class Option(msgspec.Struct, frozen=True, gc=False):
    """One way to place an engine: the pool and claims of each member, and the load on each pool."""

    pools: tuple[int, ...]
    claims: tuple[tuple[ResolvedRequest, ...], ...]
    loads: tuple[tuple[int, Load], ...]


class EngineOptions(msgspec.Struct, frozen=True):
    """The options of an engine: in published order, one pool before two.

    `refused` has, for each pool, the reason why the whole engine does not fit there.
    """

    options: tuple[Option, ...]
    refused: tuple[Rejected | None, ...]


class OptionFinder:
    """Finds the options of a deployment's engines; remembers those of pools that are alike."""

    def __init__(
        self, deployment: Deployment, selection: Selection, budget: SearchBudget, capacity_type: CapacityType
    ) -> None:
        self._deployment = deployment
        self._capacity_type = capacity_type
        self._engines = deployment.engines
        self._largest = max(
            (sum(member.pods for member in engine.members) for engine in deployment.engines if engine.gang),
            default=0,
        )
        self._selection = selection
        self._budget = budget
        self._served: dict[tuple[Member, int], Served | Rejected] = {}
        self._new: dict[Kinds, tuple[EngineOptions, ...]] = {}
        self._found: dict[Kinds, tuple[EngineOptions, ...]] = {}
        self._existing: IdentityMap[Sequence[Pool], tuple[EngineOptions, ...]] = IdentityMap()
        self._hardware = number_by_value(self._hardware_signature)

    def find_for_existing(self, pools: Sequence[Pool]) -> tuple[EngineOptions, ...]:
        """Return the options of each engine of a replica that is on a cluster with these pools."""
        options = self._existing.get(pools)
        if options is None:
            kinds = self.find_kinds(pools)
            options = self._found.get(kinds)
            if options is None:
                options = self._found[kinds] = self._options(pools, moving=False)
            self._existing.setdefault(pools, options)
        return options

    def find_for_new(self, pools: Sequence[Pool], kinds: Kinds) -> tuple[EngineOptions, ...]:
        """Return the options of each engine of a new replica, the same for pools of the same kinds."""
        options = self._new.get(kinds)
        if options is None:
            options = self._new[kinds] = self._options(pools, moving=True)
        return options

    def find_kinds(self, pools: Sequence[Pool]) -> Kinds:
        """Return the properties that distinguish pools, without name and free capacity."""
        hardware = map(self._hardware, map(_DEVICES, pools))
        if not self._largest:
            return tuple(zip(hardware, map(_OPENNESS, pools), strict=True))
        # Fabrics join pools for gangs only, and only a gang can have more pods than a pool has nodes.
        joined = [(pool.fabric, min(pool.nodes, self._largest)) for pool in pools]
        return tuple(zip(hardware, map(_OPENNESS, pools), joined, strict=True))

    def _hardware_signature(self, devices: Sequence[Device]) -> Hashable:
        """Return a value that is equal for pools whose nodes carry the same devices."""
        identity = self._selection.identity
        return tuple(
            (device.count, device.claim, device.device_class_name, identity(device)) for device in devices
        )

    def _options(self, pools: Sequence[Pool], *, moving: bool) -> tuple[EngineOptions, ...]:
        return tuple(self._engine_options(engine, pools, moving=moving) for engine in self._engines)

    def _engine_options(self, engine: Engine, pools: Sequence[Pool], *, moving: bool) -> EngineOptions:
        served = [[self._member(member, pool) for member in engine.members] for pool in pools]
        # A member that could claim on some pool must not be left with unenforced devices on another;
        # but what runs already does not move because a better pool appears.
        claimable = [
            moving and any(isinstance(cell := row[position], Served) and cell.claims for row in served)
            for position in range(len(engine.members))
        ]
        options = []
        refused: list[Rejected | None] = [None] * len(pools)
        for chosen in _choices(engine, pools):
            option = _option(engine, chosen, [served[pool][at] for at, pool in enumerate(chosen)], claimable)
            if moving and isinstance(option, Option):
                option = self._shut(pools, option) or _crowded(engine, pools, option) or option
            if isinstance(option, Option):
                options.append(option)
            elif len(set(chosen)) == 1:
                refused[chosen[0]] = option
        return EngineOptions(tuple(options), tuple(refused))

    def _member(self, member: Member, pool: Pool) -> Served | Rejected:
        key = (member, self._hardware(pool.devices))
        if key not in self._served:
            self._served[key] = serve_requests(member.requests, pool.devices, self._selection, self._budget)
        return self._served[key]

    def _shut(self, pools: Sequence[Pool], option: Option) -> Rejected | None:
        """Refuse a pool that is cordoned or draining, or that the new replica may not use."""
        if shut := next((refuse_pool(pools[pool]) for pool in option.pools if pools[pool].cordon), None):
            return shut
        refusals = (
            check_capacity_type(self._deployment, self._capacity_type, pools[pool]) for pool in option.pools
        )
        return next(filter(None, refusals), None)


def _choices(engine: Engine, pools: Sequence[Pool]) -> Iterator[tuple[int, ...]]:
    """Yield the pools that the members may have: all in one, then in several that one fabric joins."""
    members = len(engine.members)
    for pool in range(len(pools)):
        yield (pool,) * members
    for chosen in product(range(len(pools)), repeat=members):
        fabrics = {pools[pool].fabric for pool in chosen}
        if len(set(chosen)) > 1 and len(fabrics) == 1 and "" not in fabrics:
            yield chosen


def _option(
    engine: Engine, chosen: tuple[int, ...], served: Sequence[Served | Rejected], claimable: Sequence[bool]
) -> Option | Rejected:
    claims = []
    pods: dict[int, list[tuple[Member, Served]]] = {}
    for member, pool, cell, can_claim in zip(engine.members, chosen, served, claimable, strict=True):
        if isinstance(cell, Rejected):
            return cell
        if can_claim and not cell.claims:
            return Rejected(Reason.NOTHING_TO_CLAIM, engine.name, "all devices are Synthetic")
        claims.append(cell.claims)
        if cell.claims:
            pods.setdefault(pool, []).append((member, cell))
    if not pods:
        return Rejected(
            Reason.NOTHING_TO_CLAIM, engine.name, "none of the requested devices can be claimed through DRA"
        )
    loads = tuple(
        (
            pool,
            Load(Group(tuple(sorted((cell.demand, member.pods) for member, cell in cells))), engine.copies),
        )
        for pool, cells in pods.items()
    )
    return Option(chosen, tuple(claims), loads)


def _crowded(engine: Engine, pools: Sequence[Pool], option: Option) -> Rejected | None:
    """Refuse a pool with fewer nodes than one group of a gang has pods: each needs a node of its own."""
    for pool, load in option.loads:
        have = pools[pool].nodes
        if engine.gang and load.group.size > have:
            name, needed = pools[pool].name, load.group.size
            return Rejected(
                Reason.TOO_FEW_NODES,
                engine.name,
                f"pool {name} has {count_noun(have, 'node')}, but one gang requires {needed}",
                remedy=f"increase pool {name} to {count_noun(needed, 'node')}",
            )
    return None
