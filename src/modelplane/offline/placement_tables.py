"""Plans and explanations as rows of tables, for people."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from modelplane.offline.placements import Claim, Deployment, Pool, Replica

Row = tuple[str, ...]
"""One row of a table for people."""

REPLICA_COLUMNS: Final = ("DEPLOYMENT", "REPLICA", "CLUSTER", "ENGINE", "POOL", "PODS", "DEVICES PER POD")
WHERE_COLUMNS: Final = (*REPLICA_COLUMNS[1:], "WHY")
REMEDY_COLUMNS: Final = ("CHANGE", "CLUSTERS THAT WOULD DO")
REFUSAL_COLUMNS: Final = ("CLUSTER", "POOL", "ENGINE", "REFUSED", "COMPARED", "REMEDY")
POOL_COLUMNS: Final = ("CLUSTER", "POOL", "COUNTED", "TOTAL", "TAKEN", "FREE")


def replica_rows(deployment: Deployment) -> Iterator[Row]:
    """Yield a row for each member of each replica."""
    name = f"{deployment.name.namespace}/{deployment.name.name}"
    for replica in deployment.replicas:
        yield from ((name, *row) for row in _rows(replica))


def where_rows(deployment: Deployment) -> Iterator[Row]:
    """Yield the same rows, with why each replica is where it is in the place of the deployment."""
    for replica in deployment.replicas:
        yield from ((*row, replica.reason or "-") for row in _rows(replica))


def _rows(replica: Replica) -> Iterator[Row]:
    called = f"{replica.name} {replica.state}" if replica.name else str(replica.state)
    if not replica.engines:
        yield (called, replica.cluster or "-", "-", "-", "-", "-")
    for engine in replica.engines:
        for member in engine.members:
            pods = str(member.pods * engine.copies)
            yield (called, replica.cluster, engine.name, member.pool, pods, _claims(member.claims))


def verdict(deployment: Deployment) -> str:
    """Say that all is well."""
    return f"{deployment.placed} of {deployment.wanted} replicas placed"


def _claims(claims: Sequence[Claim]) -> str:
    return ", ".join(f"{claim.count} {claim.name}" for claim in claims) or "-"


def refusal_rows(deployment: Deployment) -> Iterator[Row]:
    """Yield a row for each cluster and pool that refused."""
    for refusal in deployment.refusals:
        compared = refusal.detail or ", ".join(f"{each.name} is {each.value}" for each in refusal.compared)
        yield (
            refusal.cluster,
            refusal.pool or "-",
            refusal.engine or "-",
            refusal.reason,
            compared or "-",
            refusal.remedy or "-",
        )


def remedy_rows(deployment: Deployment) -> Iterator[Row]:
    """Yield a row for each change with which one more replica would fit."""
    for remedy in deployment.remedies:
        yield (remedy.change, ", ".join(remedy.clusters) or "-")


def pool_rows(pools: Iterable[Pool]) -> Iterator[Row]:
    """Yield a row for each amount of each pool."""
    for pool in pools:
        for amount in pool.amounts:
            yield (
                pool.cluster,
                pool.pool,
                amount.name,
                str(amount.total),
                str(amount.taken),
                str(amount.free),
            )
