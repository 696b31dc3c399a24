"""Reports on the capacity of pools: what there is, and what replicas take of it."""

from collections.abc import Collection

from modelplane import scheduler
from modelplane.offline.files.report_documents import Output
from modelplane.offline.plan.fleet_of_files import Files, take_snapshot, to_provision


class Amount(Output, frozen=True, kw_only=True):
    """Nodes of a pool, or devices of one entry of its class."""

    name: str
    total: int
    """As declared."""
    usable: int
    """As observed; all of it if nothing was."""
    taken: int
    free: int


class Pool(Output, frozen=True, kw_only=True):
    """Capacity of one pool after the placement."""

    cluster: str
    pool: str
    accounting: str
    nodes: int
    amounts: tuple[Amount, ...]
    provisioned: bool
    """False for a pool of a cluster that its cloud has yet to create."""
    spot: bool = False
    """True if its nodes are spot."""
    why: str = ""
    """The cause for which not all that is declared is usable."""


def report_pools(files: Files, clusters: Collection[str] | None = None) -> tuple[Pool, ...]:
    """Return the capacity of the pools of the fleet, or of some of its clusters."""
    absent = to_provision(files)
    return tuple(
        Pool(
            cluster=used.cluster,
            pool=used.pool,
            accounting=str(used.accounting),
            nodes=used.nodes,
            amounts=tuple(
                Amount(
                    name=amount.name,
                    total=amount.total,
                    usable=amount.usable,
                    taken=amount.taken,
                    free=amount.free,
                )
                for amount in used.amounts
            ),
            provisioned=used.cluster not in absent,
            spot=used.spot,
            why=used.why,
        )
        for used in scheduler.measure_usage(take_snapshot(files), clusters)
    )
