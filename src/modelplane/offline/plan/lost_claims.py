"""Claims that match a device of a class, and not the card itself, which publishes less memory.

The scheduler compares with the class, and kube-scheduler with the card: such a pod is placed, and stays
Pending.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api.fields.cluster.devices import Device
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import kind_of
from modelplane.api.schema.decode import decode_as
from modelplane.catalogue.cards import Overstatement, find_overstatements
from modelplane.compose.deployment import fleet_snapshot
from modelplane.offline.models.nominal_memory import is_selected
from modelplane.offline.plan.fleet_of_files import Files

_CLUSTERS: Final = kind_of(InferenceCluster)


def find_lost_claims(files: Files, cluster: str, engines: Iterable[scheduler.PlacedEngine]) -> Iterator[str]:
    """Yield a sentence about each device of a cluster that matches a claim only by its class."""
    for item in files.store.list_kind(_CLUSTERS.api_version, _CLUSTERS.name):
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
            declared = fleet_snapshot.device(device)
            published = replace(
                declared, capacity={**declared.capacity, overstatement.key: overstatement.published}
            )
            if any(is_selected(declared, claim) and not is_selected(published, claim) for claim in claims):
                yield overstatement
