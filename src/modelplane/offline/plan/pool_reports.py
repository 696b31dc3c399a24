"""Reports on the capacity of pools: the total, and the part that replicas use.

The scheduler compares with the class, and kube-scheduler with the card: such a pod is placed, and stays
Pending.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api.fields.cluster.devices import Device
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.schema.decode import decode_as
from modelplane.catalogue.cards import Overstatement, find_overstatements
from modelplane.compose.deployment import scheduler_input
from modelplane.offline.files.report_documents import Output
from modelplane.offline.models.nominal_memory import is_selected
from modelplane.offline.plan.fleet_of_files import Files, take_snapshot, to_provision


def find_lost_claims(files: Files, cluster: str, engines: Iterable[scheduler.PlacedEngine]) -> Iterator[str]:
    """Yield a sentence about each device of a cluster that matches a claim only by its class."""
    for item in files.store.list_kind(InferenceCluster):
        if item["metadata"]["name"] != cluster:
            continue
        for pool in decode_as(InferenceCluster, item).status.gpu_pools:
            claims = [
                claim.selectors
                for engine in engines
                for member in engine.members
                if member.pool == pool.name
                for claim in member.claims
            ]
            for overstatement in _lost(pool.devices, claims):
                yield f'pool {pool.name} of InferenceCluster "{cluster}": {overstatement}'


def _lost(devices: Iterable[Device], claims: Sequence[Sequence[str]]) -> Iterator[Overstatement]:
    """Yield the devices that match a claim as declared, and not as their card publishes itself."""
    for device in devices:
        for overstatement in find_overstatements([device]):
            declared = scheduler_input.read_device(device)
            published = replace(
                declared, capacity={**declared.capacity, overstatement.key: overstatement.published}
            )
            if any(is_selected(declared, claim) and not is_selected(published, claim) for claim in claims):
                yield overstatement


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
        for used in scheduler.sum_usage(take_snapshot(files), clusters)
    )
