"""Which pool each engine of a replica goes to, on one cluster.

One rule: an engine is never split over pools, for nothing is known of the fabric between them; different
engines may use different pools, and where some choice of pools fits, one is found: the first in published
order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelplane.scheduler.cluster import Cluster, Pool
from modelplane.scheduler.deployment import Deployment, Engine, Member
from modelplane.scheduler.device import Device
from modelplane.scheduler.filters.devices import Served, devices
from modelplane.scheduler.replica import PlacedEngine, PlacedMember, ResolvedRequest
from modelplane.scheduler.selection import Selection, traits
from modelplane.scheduler.verdict import Reason, Rejected

# Eight engines over eight pools is a packing problem; what takes this long is refused, and says so.
_MAX_STEPS = 50_000


@dataclass(frozen=True, slots=True)
class PoolFit:
    """What an engine would be on a pool: the claims of each member, and the nodes that it costs."""

    claims: tuple[tuple[ResolvedRequest, ...], ...]
    nodes: int


@dataclass(frozen=True, slots=True)
class Misfit:
    """No choice of pools fits: what refused each pool, for the first engine that has none."""

    engine: str
    pools: tuple[tuple[str, Rejected], ...]


class Placer:
    """Places replicas of one deployment; remembers what fits a pool's devices."""

    def __init__(self, deployment: Deployment, selection: Selection) -> None:
        self._engines = deployment.engines
        self._selection = selection
        self._served: dict[tuple[Member, int], Served | Rejected] = {}
        self._fits: dict[tuple[bool, tuple[int, ...]], tuple[tuple[PoolFit | Rejected, ...], ...]] = {}
        self._known: dict[int, tuple[tuple[Device, ...], int]] = {}
        self._numbers: dict[object, int] = {}

    def place(
        self, cluster: Cluster, free: Sequence[int], pins: Mapping[str, str] | None = None
    ) -> tuple[PlacedEngine, ...] | Misfit:
        """Place every engine, given the free nodes of each pool. `pins` fixes engines' pools, by name."""
        fits = self._pool_fits(cluster, moving=pins is None)
        options = []
        for engine, verdicts in zip(self._engines, fits, strict=True):
            pin = (pins or {}).get(engine.name)
            option = [
                pool
                for pool, verdict in enumerate(verdicts)
                if isinstance(verdict, PoolFit)
                and verdict.nodes <= free[pool]
                and pin in (None, cluster.pools[pool].name)
            ]
            if not option:
                return _misfit(engine, cluster, verdicts, free, pin)
            options.append(option)
        costs = [[fit.nodes if isinstance(fit, PoolFit) else 0 for fit in verdicts] for verdicts in fits]
        search = _Search(options, costs)
        chosen = search.run(tuple(free))
        if chosen is None:
            return _competing(self._engines, cluster, options, costs, free, search.outcome)
        return tuple(
            _placed(engine, cluster.pools[pool].name, verdicts[pool])
            for engine, pool, verdicts in zip(self._engines, chosen, fits, strict=True)
        )

    def _pool_fits(self, cluster: Cluster, *, moving: bool) -> tuple[tuple[PoolFit | Rejected, ...], ...]:
        """Return, for each engine, what it would be on each pool. Free nodes play no part."""
        hardware = tuple(self._hardware_of(pool) for pool in cluster.pools)
        key = (moving, hardware)
        if key not in self._fits:
            self._fits[key] = tuple(
                self._engine_fits(engine, cluster.pools, hardware, moving=moving) for engine in self._engines
            )
        return self._fits[key]

    def _engine_fits(
        self, engine: Engine, pools: Sequence[Pool], hardware: Sequence[int], *, moving: bool
    ) -> tuple[PoolFit | Rejected, ...]:
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
        return tuple(_engine_fit(engine, row, claimable) for row in served)

    def _member(self, member: Member, pool: Pool, identity: int) -> Served | Rejected:
        key = (member, identity)
        if key not in self._served:
            self._served[key] = devices(member.requests, pool.devices, self._selection)
        return self._served[key]

    def _hardware_of(self, pool: Pool) -> int:
        """Return a number that is the same for pools whose nodes carry the same devices."""
        known = self._known.get(id(pool.devices))
        if known is not None:
            return known[1]
        value = tuple(map(_wares, pool.devices))
        number = self._numbers.setdefault(value, len(self._numbers))
        # The devices are kept beside their number, so that their id is not used again while it is a key.
        self._known[id(pool.devices)] = (pool.devices, number)
        return number


def _wares(device: Device) -> tuple[object, ...]:
    return (device.count, device.claim, device.device_class_name, *traits(device))


def _engine_fit(
    engine: Engine, served: Sequence[Served | Rejected], claimable: Sequence[bool]
) -> PoolFit | Rejected:
    claims = []
    for member, can_claim in zip(served, claimable, strict=True):
        if isinstance(member, Rejected):
            return member
        if can_claim and not member.claims:
            return Rejected(Reason.NOTHING_TO_CLAIM, engine.name, "its devices are Synthetic only")
        claims.append(member.claims)
    if not any(claims):
        return Rejected(
            Reason.NOTHING_TO_CLAIM, engine.name, "no device that it asks for is claimed through DRA"
        )
    nodes = sum(
        member.pods * engine.copies for member, claim in zip(engine.members, claims, strict=True) if claim
    )
    return PoolFit(tuple(claims), nodes)


def _placed(engine: Engine, pool: str, fit: PoolFit | Rejected) -> PlacedEngine:
    claims = fit.claims if isinstance(fit, PoolFit) else ()
    members = tuple(
        PlacedMember(member.role, pool, member.pods, claim)
        for member, claim in zip(engine.members, claims, strict=True)
    )
    return PlacedEngine(engine.name, engine.copies, members)


class _Search:
    """Depth first: engines in order, pools in published order; dead ends are remembered."""

    def __init__(self, options: Sequence[Sequence[int]], costs: Sequence[Sequence[int]]) -> None:
        self._options = options
        self._costs = costs
        self._dead: set[tuple[int, tuple[int, ...]]] = set()
        self._steps = 0

    @property
    def outcome(self) -> str:
        if self._steps > _MAX_STEPS:
            return "too many ways to place them were tried"
        return "each would fit, but not all at once"

    def run(self, free: tuple[int, ...], position: int = 0) -> tuple[int, ...] | None:
        """Return the chosen pool of each engine from `position` on."""
        if position == len(self._options):
            return ()
        self._steps += 1
        if (position, free) in self._dead or self._steps > _MAX_STEPS:
            return None
        for pool in self._options[position]:
            left = free[pool] - self._costs[position][pool]
            if left < 0:
                continue
            chosen = self.run((*free[:pool], left, *free[pool + 1 :]), position + 1)
            if chosen is not None:
                return (pool, *chosen)
        self._dead.add((position, free))
        return None


def _misfit(
    engine: Engine,
    cluster: Cluster,
    verdicts: Sequence[PoolFit | Rejected],
    free: Sequence[int],
    pin: str | None,
) -> Misfit:
    refused = [
        (pool.name, verdict if isinstance(verdict, Rejected) else _no_nodes(pool, verdict.nodes, nodes))
        for pool, verdict, nodes in zip(cluster.pools, verdicts, free, strict=True)
        if pin in (None, pool.name)
    ]
    return Misfit(engine.name, tuple(refused) or (("", Rejected(Reason.NO_POOLS)),))


def _competing(
    engines: Sequence[Engine],
    cluster: Cluster,
    options: Sequence[Sequence[int]],
    costs: Sequence[Sequence[int]],
    free: Sequence[int],
    outcome: str,
) -> Misfit:
    wanted = sorted({pool for option in options for pool in option})
    names = ", ".join(engine.name for engine in engines)
    least = sum(min(cost[pool] for pool in option) for cost, option in zip(costs, options, strict=True))
    return Misfit(
        names,
        tuple(
            (
                cluster.pools[pool].name,
                Rejected(
                    Reason.ENGINES_COMPETE,
                    names,
                    f"{outcome}: {least} nodes needed, {free[pool]} free in pool {cluster.pools[pool].name}",
                ),
            )
            for pool in wanted
        ),
    )


def _no_nodes(pool: Pool, needed: int, free: int) -> Rejected:
    detail = f"pool {pool.name} has {max(free, 0)} of {pool.nodes} nodes free, {needed} needed"
    return Rejected(Reason.NO_FREE_NODES, detail=detail)
