"""Tables of plans and explanations.

Equal rows are merged: new replicas of one deployment on one cluster are one row with their number.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from modelplane.api.fields.pods.engines import Role
from modelplane.api.report_tables import Columns, Explained, Table
from modelplane.offline.files.diagnostics import join_choices
from modelplane.offline.plan.placements import (
    Alternative,
    Deployment,
    EngineReport,
    ExclusionReport,
    Explanation,
    MemberReport,
    RemedyReport,
    Replica,
    find_used_pools,
)
from modelplane.offline.plan.pool_reports import Amount, Pool
from modelplane.scheduler.rejection_reasons import RANKS


def _mark(pool: str, is_spot: bool) -> str:
    return f"{pool} (spot)" if is_spot else pool


def _compare(refusal: ExclusionReport) -> str:
    compared = refusal.detail or ", ".join(f"{value.name} is {value.value}" for value in refusal.compared)
    return compared or "-"


def _total(amount: Amount) -> str:
    return str(amount.total) if amount.usable == amount.total else f"{amount.total}, {amount.usable} usable"


class Place(NamedTuple):
    """The place of one member of a replica; of a replica without engines, only its cluster."""

    deployment: str
    called: str
    """The name and state of the replica; of new ones that are equal, which have no name, their number."""
    replica: Replica
    engine: EngineReport | None = None
    member: MemberReport | None = None

    @property
    def pods(self) -> str:
        """The number of pods, with their role."""
        if self.engine is None or self.member is None:
            return "-"
        pods = str(self.member.pods * self.engine.copies)
        return pods if self.member.role == Role.STANDALONE else f"{pods} {self.member.role}"

    @property
    def devices(self) -> str:
        """The devices of a pod."""
        claims = self.member.claims if self.member else ()
        return ", ".join(f"{claim.count} {claim.name}" for claim in claims) or "-"


_PLACES: Final[tuple[tuple[str, Callable[[Place], str]], ...]] = (
    ("REPLICA", lambda place: place.called),
    ("CLUSTER", lambda place: place.replica.cluster),
    ("ENGINE", lambda place: place.engine.name if place.engine else "-"),
    ("POOL", lambda place: _mark(place.member.pool, place.member.spot) if place.member else "-"),
    ("PODS", lambda place: place.pods),
    ("DEVICES/POD", lambda place: place.devices),
)
REPLICAS: Final = Columns[Place](("DEPLOYMENT", lambda place: place.deployment), *_PLACES)
WHERE: Final = Columns[Place](*_PLACES, ("REASON", lambda place: place.replica.reason or "-"))
REMEDIES: Final = Columns[RemedyReport](
    ("CHANGE", lambda remedy: remedy.change),
    ("CLUSTERS", lambda remedy: join_choices(remedy.clusters) if remedy.clusters else "-"),
)
REFUSALS: Final = Columns[ExclusionReport](
    ("CLUSTER", lambda refusal: refusal.cluster),
    ("POOL", lambda refusal: refusal.pool or "-"),
    ("ENGINE", lambda refusal: refusal.engine or "-"),
    ("REASON", lambda refusal: refusal.reason),
    ("DETAIL", _compare),
    ("REMEDY", lambda refusal: refusal.remedy or "-"),
)
ALTERNATIVES: Final = Columns[Alternative](
    ("CLUSTER", lambda place: place.cluster),
    ("POOLS", lambda place: _mark(", ".join(place.pools), place.spot)),
    ("COST/HOUR", lambda place: place.cost_per_hour or "-"),
    ("STRANDED DEVICES", lambda place: str(place.stranded_devices)),
)
CAPACITY: Final = Columns[tuple[Pool, Amount]](
    ("CLUSTER", lambda row: row[0].cluster),
    ("POOL", lambda row: _mark(row[0].pool, row[0].spot)),
    ("UNIT", lambda row: row[1].name),
    ("TOTAL", lambda row: _total(row[1])),
    ("USED", lambda row: str(row[1].taken)),
    ("FREE", lambda row: str(row[1].free)),
)


def list_places(deployments: Iterable[Deployment]) -> Iterator[Place]:
    """Yield the places of all replicas of deployments; new replicas that are equal share theirs."""
    for deployment in deployments:
        yield from list_replica_places(
            deployment.replicas, f"{deployment.name.namespace}/{deployment.name.name}"
        )


def list_replica_places(replicas: Iterable[Replica], deployment: str = "") -> Iterator[Place]:
    """Yield a place for each member of each replica; new replicas that are equal share theirs."""
    alike: dict[object, list[Replica]] = {}
    for replica in replicas:
        same = (replica.state, replica.name, replica.cluster, replica.engines, replica.reason)
        alike.setdefault(same, []).append(replica)
    for first, *others in alike.values():
        called = f"{first.name or 1 + len(others)} {first.state}"
        if not first.engines:
            yield Place(deployment, called, first)
        for engine in first.engines:
            yield from (Place(deployment, called, first, engine, member) for member in engine.members)


def describe_placed(deployments: Iterable[Deployment]) -> str:
    """Return how many replicas are placed."""
    counted = tuple(deployments)
    total = sum(report.wanted for report in counted)
    return f"{sum(report.placed for report in counted)} of {total} replicas placed"


def select_closest(refusals: Sequence[ExclusionReport], most: int) -> Sequence[ExclusionReport]:
    """Return at most `most` refusals, those closest to a fit first: by the latest rule."""
    if len(refusals) <= most:
        return refusals
    return sorted(refusals, key=lambda refusal: -RANKS[refusal.rule])[:most]


def describe_cost(deployment: Deployment) -> str | None:
    """Return the cost of the replicas; None if no pool has a price."""
    cost = deployment.cost
    if cost is None:
        return None
    unpriced = f"; {cost.unpriced_replicas} without a known price" if cost.unpriced_replicas else ""
    return f"{deployment.name}: {cost.per_hour} {cost.currency} per hour{unpriced}"


def select_pools(pools: Sequence[Pool], deployments: Iterable[Deployment], most: int) -> Sequence[Pool]:
    """Return the pools that replicas of deployments use, or all pools if there are at most `most`."""
    if len(pools) <= most:
        return pools
    used = find_used_pools(deployments)
    return [pool for pool in pools if (pool.cluster, pool.pool) in used]


def list_amounts(pools: Iterable[Pool]) -> Iterator[tuple[Pool, Amount]]:
    """Yield each pool with each of its resources."""
    yield from ((pool, amount) for pool in pools for amount in pool.amounts)


def report_deployment(result: Explanation, most: int | None) -> Explained:
    """Return the placement of a deployment in tables with at most so many rows, or all."""
    deployment, pools = result.deployment, result.pools
    if most is not None:
        pools = tuple(select_pools(pools, [deployment], most))
    tables = (
        WHERE.tabulate("Replicas", list_replica_places(deployment.replicas), most),
        tabulate_refusals("Clusters that don't fit", deployment.refusals, most),
        REMEDIES.tabulate("Changes that place one more replica", deployment.remedies, most),
        ALTERNATIVES.tabulate(
            "One more replica would fit on", result.alternatives if deployment.cost else (), most
        ),
        CAPACITY.tabulate("Remaining capacity", list_amounts(pools), most)._replace(
            left_out=len(result.pools) - len(pools)
        ),
    )
    notes = (
        *deployment.notes,
        *([f"Rollout: {deployment.rollout}"] if deployment.rollout else []),
        *([f"Standby: {deployment.standby}"] if deployment.standby else []),
        *([f"Cost: {describe_cost(deployment)}"] if deployment.cost else []),
        *describe_pools(pools, result.assumed_ready),
    )
    verdict = f"{deployment.name}: {deployment.diagnosis or describe_placed([deployment])}"
    if result.placed and result.reason:
        verdict += f"; not ready: {result.reason}"
    return Explained(
        verdict, result.placed and not result.reason, tuple(table for table in tables if table.rows), notes
    )


def tabulate_refusals(title: str, refusals: Sequence[ExclusionReport], most: int | None) -> Table:
    """Return at most so many refusals: those closest to a fit."""
    closest = refusals if most is None else select_closest(refusals, most)
    return REFUSALS.tabulate(title, closest)._replace(left_out=len(refusals) - len(closest))


def describe_pools(pools: Iterable[Pool], assumed_ready: Sequence[str]) -> Iterator[str]:
    """Yield why pools are not usable, those that do not exist yet, and the clusters assumed ready."""
    listed = list(pools)
    yield from (f"{pool.cluster}/{pool.pool}: {pool.why}" for pool in listed if pool.why)
    if absent := [f"{pool.cluster}/{pool.pool}" for pool in listed if not pool.provisioned]:
        yield f"Not provisioned yet: {join_choices(absent)}"
    if assumed_ready:
        yield f"Assumed ready (no status in the manifest): {join_choices(assumed_ready)}"
