"""Which pools each engine of a replica goes to, on one cluster.

One rule: an engine is in one pool, or its members are in pools that one fabric joins; a member is never
split. Different engines may use different pools. Where some choice of pools fits, one is found: the first in
published order, an engine in one pool before one that is in two.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from modelplane.scheduler.effort import Effort, numbered
from modelplane.scheduler.filters.devices import Served, devices
from modelplane.scheduler.identity_map import numbering
from modelplane.scheduler.rooms import NodeRoom, Room
from modelplane.scheduler.selection import Selection, traits
from modelplane.scheduler.types import (
    Cluster,
    Deployment,
    Device,
    Engine,
    Group,
    Load,
    Member,
    PlacedEngine,
    PlacedMember,
    Pool,
    ResolvedRequest,
)
from modelplane.scheduler.verdict import Reason, Rejected

Pins: TypeAlias = Mapping[str, tuple[str, ...]]
"""The pools that engines must stay in, by the engine's name: one for each member."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to place an engine: the pool of each member, what each claims, and what that takes."""

    pools: tuple[int, ...]
    claims: tuple[tuple[ResolvedRequest, ...], ...]
    loads: tuple[tuple[int, Load], ...]


@dataclass(frozen=True, slots=True)
class Misfit:
    """No choice of pools fits: what refused each pool, for the first engine that has none."""

    engine: str
    pools: tuple[tuple[str, Rejected], ...]


@dataclass(frozen=True, slots=True)
class _Fits:
    """What an engine would be on a cluster's pools. Free nodes play no part.

    `refused` has, for each pool, why the whole engine cannot be there.
    """

    options: tuple[Option, ...]
    refused: tuple[Rejected | None, ...]


class Placer:
    """Places replicas of one deployment; remembers what fits a pool's devices."""

    def __init__(self, deployment: Deployment, selection: Selection, effort: Effort) -> None:
        self._engines = deployment.engines
        self._largest = max((_gang_size(engine) for engine in deployment.engines), default=0)
        self.selection = selection
        self._effort = effort
        self._served: dict[tuple[Member, int], Served | Rejected] = {}
        self._fits: dict[object, tuple[_Fits, ...]] = {}
        self._number = numbering(_hardware)

    def place(
        self, cluster: Cluster, rooms: Sequence[Room], pins: Pins | None = None
    ) -> tuple[PlacedEngine, ...] | Misfit:
        """Place every engine in the rooms of the cluster's pools."""
        options = self._options(cluster, pins)
        if isinstance(options, Misfit):
            return options
        chosen = _first_fits(options, rooms)
        if chosen is None:
            # Where nothing is pinned, pools with the same hardware and fabric are interchangeable.
            kinds = self._kinds(cluster.pools) if pins is None else tuple(range(len(rooms)))
            search = _Search(options, rooms, kinds, self._effort)
            possible = search.possible()
            for engine, wanted, fitting in zip(self._engines, options, possible, strict=True):
                if not fitting:
                    return self._no_room(engine, cluster, wanted, rooms, pins)
            chosen = search.run()
            if chosen is None:
                return _competing(self._engines, cluster, possible, rooms, search.outcome)
        return tuple(
            _placed(engine, cluster, option) for engine, option in zip(self._engines, chosen, strict=True)
        )

    def resolve(self, cluster: Cluster, pins: Pins) -> tuple[PlacedEngine, ...] | Misfit:
        """Place every engine where it is pinned, whatever room there is."""
        options = self._options(cluster, pins)
        if isinstance(options, Misfit):
            return options
        return tuple(
            _placed(engine, cluster, wanted[0]) for engine, wanted in zip(self._engines, options, strict=True)
        )

    def _options(self, cluster: Cluster, pins: Pins | None) -> list[list[Option]] | Misfit:
        options = []
        for engine, fits in zip(self._engines, self._pool_fits(cluster, moving=pins is None), strict=True):
            pin = (pins or {}).get(engine.name)
            option = [each for each in fits.options if _obeys(each, cluster, pin)]
            if not option:
                return _misfit(engine, cluster, fits, pin)
            options.append(option)
        return options

    def _no_room(
        self,
        engine: Engine,
        cluster: Cluster,
        wanted: Sequence[Option],
        rooms: Sequence[Room],
        pins: Pins | None,
    ) -> Misfit:
        """Explain an engine for which no option has room."""
        fits = self._pool_fits(cluster, moving=pins is None)[self._engines.index(engine)]
        pools: dict[int, Rejected] = {
            pool: rejected for pool, rejected in enumerate(fits.refused) if rejected is not None
        }
        for option in wanted:
            for pool, load in option.loads:
                if rooms[pool].take(load) is None:
                    pools[pool] = _full(cluster.pools[pool], rooms[pool], load)
        pin = (pins or {}).get(engine.name)
        return Misfit(
            engine.name,
            tuple(
                (cluster.pools[pool].name, pools[pool])
                for pool in sorted(pools)
                if pin is None or cluster.pools[pool].name in pin
            ),
        )

    def _pool_fits(self, cluster: Cluster, *, moving: bool) -> tuple[_Fits, ...]:
        key = (moving, self._kinds(cluster.pools))
        fits = self._fits.get(key)
        if fits is None:
            hardware = [self._hardware_of(pool) for pool in cluster.pools]
            fits = self._fits[key] = tuple(
                self._engine_fits(engine, cluster.pools, hardware, moving=moving) for engine in self._engines
            )
        return fits

    def _kinds(self, pools: Sequence[Pool]) -> tuple[Hashable, ...]:
        """Return what tells pools apart, but for their names and what is free."""
        if not self._largest:
            return tuple(self._hardware_of(pool) for pool in pools)
        # Fabrics join pools for gangs only, and only a gang can have more pods than a pool has nodes.
        return tuple((self._hardware_of(pool), pool.fabric, min(pool.nodes, self._largest)) for pool in pools)

    def _engine_fits(
        self, engine: Engine, pools: Sequence[Pool], hardware: Sequence[int], *, moving: bool
    ) -> _Fits:
        served = [
            [self._member(member, pool, identity) for member in engine.members]
            for pool, identity in zip(pools, hardware, strict=True)
        ]
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
            if moving and isinstance(option, Option) and (crowded := _crowded(engine, pools, option)):
                option = crowded
            if isinstance(option, Option):
                options.append(option)
            elif len(set(chosen)) == 1:
                refused[chosen[0]] = option
        return _Fits(tuple(options), tuple(refused))

    def _member(self, member: Member, pool: Pool, identity: int) -> Served | Rejected:
        key = (member, identity)
        if key not in self._served:
            self._served[key] = devices(member.requests, pool.devices, self.selection, self._effort)
        return self._served[key]

    def _hardware_of(self, pool: Pool) -> int:
        """Return a number that is the same for pools whose nodes carry the same devices."""
        return self._number(pool.devices)


def _gang_size(engine: Engine) -> int:
    return sum(member.pods for member in engine.members) if engine.gang else 0


def _hardware(devices: Sequence[Device]) -> Hashable:
    return tuple(map(_wares, devices))


def _wares(device: Device) -> tuple[object, ...]:
    return (device.count, device.claim, device.device_class_name, *traits(device))


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
    engine: Engine,
    chosen: tuple[int, ...],
    served: Sequence[Served | Rejected],
    claimable: Sequence[bool],
) -> Option | Rejected:
    claims = []
    pods: dict[int, list[tuple[Member, Served]]] = {}
    for member, pool, cell, can_claim in zip(engine.members, chosen, served, claimable, strict=True):
        if isinstance(cell, Rejected):
            return cell
        if can_claim and not cell.claims:
            return Rejected(Reason.NOTHING_TO_CLAIM, engine.name, "its devices are Synthetic only")
        claims.append(cell.claims)
        if cell.claims:
            pods.setdefault(pool, []).append((member, cell))
    if not pods:
        return Rejected(
            Reason.NOTHING_TO_CLAIM, engine.name, "no device that it asks for is claimed through DRA"
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
                f"pool {name} has {_nodes(have)}, and one gang is on {needed}",
                remedy=f"make pool {name} {_nodes(needed)} large",
            )
    return None


def _obeys(option: Option, cluster: Cluster, pin: tuple[str, ...] | None) -> bool:
    if pin is None:
        return True
    names = tuple(cluster.pools[pool].name for pool in option.pools)
    # An engine that was one pod and is a gang now stays in its pool.
    return names == (pin if len(pin) == len(names) else pin[:1] * len(names))


def _taken(rooms: Sequence[Room], option: Option) -> dict[int, Room] | None:
    """Return the rooms that an option leaves smaller, None where it does not fit."""
    smaller = {}
    for pool, load in option.loads:
        room = rooms[pool].take(load)
        if room is None:
            return None
        smaller[pool] = room
    return smaller


def _first_fits(options: Sequence[Sequence[Option]], rooms: Sequence[Room]) -> tuple[Option, ...] | None:
    """Return the first option of each engine that fits beside those before, None where one has none."""
    chosen = []
    left = [*rooms]
    for wanted in options:
        for option in wanted:
            smaller = _taken(left, option)
            if smaller is not None:
                break
        else:
            return None
        chosen.append(option)
        for pool, room in smaller.items():
            left[pool] = room
    return tuple(chosen)


def _placed(engine: Engine, cluster: Cluster, option: Option) -> PlacedEngine:
    members = tuple(
        PlacedMember(member.role, cluster.pools[pool].name, member.pods, claim)
        for member, pool, claim in zip(engine.members, option.pools, option.claims, strict=True)
    )
    return PlacedEngine(engine.name, engine.copies, members)


class _Search:
    """Depth first: engines in order, options in order; if that takes too long, the largest engine first.

    A state is a dead end where an engine that is still to come has no option left, where those to come need
    more nodes than are free, or where the search from one like it has failed. `kinds` are equal for pools
    that have the same options. Rooms and loads go by number, and what a load leaves of a room is found once.
    """

    def __init__(
        self,
        options: Sequence[Sequence[Option]],
        rooms: Sequence[Room],
        kinds: Sequence[Hashable],
        effort: Effort,
    ) -> None:
        self._options = options
        self._kinds = numbered(kinds)
        self._effort = effort
        self._order: Sequence[int] = range(len(options))
        self._limit = self._steps = 0

        every = [load for wanted in options for each in wanted for _, load in each.loads]
        self._loads = tuple(dict.fromkeys(every))
        numbers = iter(numbered(every))
        self._wanted = [
            [[(pool, next(numbers)) for pool, _ in each.loads] for each in wanted] for wanted in options
        ]
        self._nodes = [
            min(
                sum(load.nodes for pool, load in each.loads if isinstance(rooms[pool], NodeRoom))
                for each in wanted
            )
            for wanted in options
        ]
        self._rooms: list[Room] = []
        self._numbers: dict[Room, int] = {}
        self._left: dict[tuple[int, int], int | None] = {}
        self._dead: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
        self._start = tuple(map(self._number, rooms))

    @property
    def outcome(self) -> str:
        if self._steps > self._limit:
            return "too many ways to place them were tried"
        return "each would fit, but not all at once"

    def possible(self) -> list[list[Option]]:
        """Return the options of each engine that would fit if it were alone."""
        fitting = [
            [option for option, loads in zip(options, wanted, strict=True) if self._after(self._start, loads)]
            for options, wanted in zip(self._options, self._wanted, strict=True)
        ]
        self._effort.spend(self._steps)
        return fitting

    def run(self) -> tuple[Option, ...] | None:
        """Return the chosen option of each engine."""
        engines = range(len(self._options))
        for order in (engines, sorted(engines, key=self._size, reverse=True)):
            self._order = order
            self._dead.clear()
            self._steps, self._limit = 0, self._effort.allowance
            chosen = self._from(0, self._start)
            self._effort.spend(self._steps)
            if chosen is not None:
                by_engine = dict(zip(order, chosen, strict=True))
                return tuple(by_engine[engine] for engine in engines)
            if self._steps <= self._limit:
                break
        return None

    def _size(self, engine: int) -> tuple[int, int]:
        """Return the nodes and devices that an engine needs."""
        claimed = sum(
            load.copies * pods * sum(demand.need)
            for _, load in self._options[engine][0].loads
            for demand, pods in load.group.pods
        )
        return (self._nodes[engine], claimed)

    def _from(self, position: int, state: tuple[int, ...]) -> tuple[Option, ...] | None:
        if position == len(self._order):
            return ()
        alike = (position, tuple(sorted(zip(self._kinds, state, strict=True))))
        if alike in self._dead or not self._promising(position, state):
            return None
        engine = self._order[position]
        for option, loads in zip(self._options[engine], self._wanted[engine], strict=True):
            left = self._after(state, loads)
            chosen = self._from(position + 1, left) if left else None
            if chosen is not None:
                return (option, *chosen)
            if self._steps > self._limit:
                return None
        self._dead.add(alike)
        return None

    def _promising(self, position: int, state: tuple[int, ...]) -> bool:
        to_come = self._order[position:]
        free = sum(_free_nodes(self._rooms[number]) for number in state)
        if free < sum(self._nodes[engine] for engine in to_come):
            return False
        return all(any(self._after(state, loads) for loads in self._wanted[engine]) for engine in to_come)

    def _after(self, state: tuple[int, ...], loads: Sequence[tuple[int, int]]) -> tuple[int, ...] | None:
        """Return the state that an option leaves, None where it does not fit."""
        self._steps += 1
        left = [*state]
        for pool, load in loads:
            number = self._take(state[pool], load)
            if number is None:
                return None
            left[pool] = number
        return tuple(left)

    def _take(self, room: int, load: int) -> int | None:
        key = (room, load)
        if key not in self._left:
            smaller = self._rooms[room].take(self._loads[load])
            self._left[key] = None if smaller is None else self._number(smaller)
            self._steps += _price(self._rooms[room])
        return self._left[key]

    def _number(self, room: Room) -> int:
        number = self._numbers.setdefault(room, len(self._rooms))
        if number == len(self._rooms):
            self._rooms.append(room)
        return number


def _free_nodes(room: Room) -> int:
    return max(room.free, 0) if isinstance(room, NodeRoom) else 0


def _price(room: Room) -> int:
    """Return how many steps it is to find out what a load leaves of a room."""
    return 1 if isinstance(room, NodeRoom) else 30 + 3 * len(room.groups) ** 2


def _misfit(engine: Engine, cluster: Cluster, fits: _Fits, pin: tuple[str, ...] | None) -> Misfit:
    refused = tuple(
        (pool.name, rejected)
        for pool, rejected in zip(cluster.pools, fits.refused, strict=True)
        if rejected is not None and (pin is None or pool.name in pin)
    )
    return Misfit(engine.name, refused or (("", Rejected(Reason.NO_POOLS)),))


def _competing(
    engines: Sequence[Engine],
    cluster: Cluster,
    options: Sequence[Sequence[Option]],
    rooms: Sequence[Room],
    outcome: str,
) -> Misfit:
    wanted = sorted({pool for option in options for each in option for pool, _ in each.loads})
    names = ", ".join(engine.name for engine in engines)
    least = sum(min(sum(load.nodes for _, load in each.loads) for each in option) for option in options)
    return Misfit(
        names,
        tuple(
            (
                cluster.pools[pool].name,
                Rejected(
                    Reason.ENGINES_COMPETE,
                    names,
                    f"{outcome}: {_needed(rooms[pool], least)} in pool {cluster.pools[pool].name}",
                ),
            )
            for pool in wanted
        ),
    )


def _needed(room: Room, pods: int) -> str:
    if isinstance(room, NodeRoom):
        return f"{_nodes(pods)} needed, {room.free} free"
    return f"{pods} pods to be placed, {_nodes(room.nodes)}"


def _full(pool: Pool, room: Room, load: Load) -> Rejected:
    if isinstance(room, NodeRoom):
        free = max(room.free, 0)
        detail = f"pool {pool.name} has {free} of {pool.nodes} nodes free, {load.nodes} needed"
        remedy = f"add {_nodes(room.missing(load))} to pool {pool.name}"
        return Rejected(Reason.NO_FREE_NODES, detail=detail, remedy=remedy)
    parts, scarce = [], False
    for entry, device in enumerate(pool.devices):
        needed = sum(demand.need[entry] * pods for demand, pods in load.group.pods) * load.copies
        if needed:
            total, free = device.count * pool.nodes, max(room.free(entry), 0)
            scarce = scarce or free < needed
            parts.append(f"{free} of {total} {device.name} free, {needed} needed")
    detail = f"pool {pool.name} has {' and '.join(parts)}"
    if not scarce:
        detail += ", which might not be on one node when Kubernetes has chosen"
    missing = room.missing(load)
    remedy = f"add {_nodes(missing)} to pool {pool.name}" if missing else ""
    return Rejected(Reason.NO_FREE_DEVICES, detail=detail, remedy=remedy)


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"
