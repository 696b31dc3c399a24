"""Plans and explanations as rows of tables.

Equal rows are merged: new replicas of one deployment on one cluster are one row with their number.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from modelplane.api.fields.pods.engines import Role
from modelplane.offline.files.diagnostics import join_choices
from modelplane.offline.plan.placements import (
    Alternative,
    Deployment,
    EngineReport,
    ExclusionReport,
    MemberReport,
    Replica,
    find_used_pools,
)
from modelplane.offline.plan.pool_reports import Pool
from modelplane.scheduler.verdict import RANKS

Row = tuple[str, ...]
"""One row of a table."""

_PLACE_COLUMNS: Final = ("REPLICA", "CLUSTER", "ENGINE", "POOL", "PODS", "PER POD")
REPLICA_COLUMNS: Final = ("DEPLOYMENT", *_PLACE_COLUMNS)
WHERE_COLUMNS: Final = (*_PLACE_COLUMNS, "WHY")
REMEDY_COLUMNS: Final = ("CHANGE", "CLUSTERS THAT WOULD DO")
REFUSAL_COLUMNS: Final = ("CLUSTER", "POOL", "ENGINE", "REFUSED", "COMPARED", "REMEDY")
ALTERNATIVE_COLUMNS: Final = ("CLUSTER", "POOLS", "COST AN HOUR", "STRANDED DEVICES")
POOL_COLUMNS: Final = ("CLUSTER", "POOL", "COUNTED", "TOTAL", "TAKEN", "FREE")


def list_replica_rows(deployment: Deployment) -> Iterator[Row]:
    """Yield a row for each member of each replica; new replicas that are equal share one."""
    name = f"{deployment.name.namespace}/{deployment.name.name}"
    for called, replica in _called(deployment.replicas):
        yield from ((name, *row) for row in _rows(called, replica))


def list_where_rows(replicas: Iterable[Replica]) -> Iterator[Row]:
    """Yield the same rows, with the reason of each placement instead of the deployment."""
    for called, replica in _called(replicas):
        yield from ((*row, replica.reason or "-") for row in _rows(called, replica))


def _called(replicas: Iterable[Replica]) -> Iterator[tuple[str, Replica]]:
    """Yield replicas with their names; new ones, which have no name, with the number of equal ones."""
    alike: dict[object, list[Replica]] = {}
    for replica in replicas:
        same = (replica.state, replica.name, replica.cluster, replica.engines, replica.reason)
        alike.setdefault(same, []).append(replica)
    for first, *others in alike.values():
        yield f"{first.name or 1 + len(others)} {first.state}", first


def _rows(called: str, replica: Replica) -> Iterator[Row]:
    if not replica.engines:
        yield (called, replica.cluster, *"----")
    for engine in replica.engines:
        for member in engine.members:
            yield (
                called,
                replica.cluster,
                engine.name,
                _marked(member.pool, member.spot),
                _pods(member, engine),
                _claims(member),
            )


def describe_placed(deployments: Iterable[Deployment]) -> str:
    """Return how many replicas are placed."""
    counted = tuple(deployments)
    total = sum(report.wanted for report in counted)
    return f"{sum(report.placed for report in counted)} of {total} replicas placed"


def _pods(member: MemberReport, engine: EngineReport) -> str:
    pods = str(member.pods * engine.copies)
    return pods if member.role == Role.STANDALONE else f"{pods} {member.role}"


def _marked(pool: str, is_spot: bool) -> str:
    return f"{pool} (spot)" if is_spot else pool


def _claims(member: MemberReport) -> str:
    return ", ".join(f"{claim.count} {claim.name}" for claim in member.claims) or "-"


def select_closest(refusals: Sequence[ExclusionReport], most: int) -> Sequence[ExclusionReport]:
    """Return at most `most` refusals, those closest to a fit first: by the latest rule."""
    if len(refusals) <= most:
        return refusals
    return sorted(refusals, key=lambda refusal: -RANKS[refusal.rule])[:most]


def list_refusal_rows(refusals: Iterable[ExclusionReport]) -> Iterator[Row]:
    """Yield a row for each cluster and pool that refused."""
    for refusal in refusals:
        compared = refusal.detail or ", ".join(f"{value.name} is {value.value}" for value in refusal.compared)
        yield (
            refusal.cluster,
            refusal.pool or "-",
            refusal.engine or "-",
            refusal.reason,
            compared or "-",
            refusal.remedy or "-",
        )


def list_remedy_rows(deployment: Deployment) -> Iterator[Row]:
    """Yield a row for each change with which one more replica would fit."""
    for remedy in deployment.remedies:
        yield (remedy.change, join_choices(remedy.clusters) if remedy.clusters else "-")


def describe_cost(deployment: Deployment) -> str | None:
    """Return what the replicas cost; None if no pool has a price."""
    cost = deployment.cost
    if cost is None:
        return None
    unpriced = f", and {cost.unpriced_replicas} without a known price" if cost.unpriced_replicas else ""
    return f"{deployment.name}: {cost.per_hour} {cost.currency} an hour{unpriced}"


def list_alternative_rows(alternatives: Iterable[Alternative]) -> Iterator[Row]:
    """Yield a row for each place that one more replica would have."""
    for alternative in alternatives:
        pools = _marked(", ".join(alternative.pools), alternative.spot)
        yield (
            alternative.cluster,
            pools,
            alternative.cost_per_hour or "-",
            str(alternative.stranded_devices),
        )


def select_pools(pools: Sequence[Pool], deployments: Iterable[Deployment], most: int) -> Sequence[Pool]:
    """Return the pools that replicas of deployments use, or all pools if there are at most `most`."""
    if len(pools) <= most:
        return pools
    used = find_used_pools(deployments)
    return [pool for pool in pools if (pool.cluster, pool.pool) in used]


def list_pool_rows(pools: Iterable[Pool]) -> Iterator[Row]:
    """Yield a row for each resource of each pool."""
    for pool in pools:
        for amount in pool.amounts:
            yield (
                pool.cluster,
                _marked(pool.pool, pool.spot),
                amount.name,
                str(amount.total)
                if amount.usable == amount.total
                else f"{amount.total}, {amount.usable} usable",
                str(amount.taken),
                str(amount.free),
            )
