"""What becomes of each replica that exists: it stays, it is to leave, or it is dropped.

One rule: nothing is dropped on doubt. A replica goes at once only when its cluster does not exist, when a
NoExecute taint evicts it, or when it is being deleted; one that no longer fits where it is leaves when its
replacement is ready.

Not asked here: labels, the clusterSelector, the cache's footprint, readiness, the gateway, free nodes
(unless the replica is to grow). Relabelling a cluster, narrowing a selector, a cluster that fails, or a
pool that shrinks moves nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from modelplane.scheduler.cluster import Cluster
from modelplane.scheduler.deployment import Deployment
from modelplane.scheduler.engines import Misfit, Placer
from modelplane.scheduler.filters.taints import evicting
from modelplane.scheduler.ledger import Ledger, held
from modelplane.scheduler.replica import PlacedEngine, Replica
from modelplane.scheduler.verdict import Reason

_OF_REQUESTS: Final = (Reason.NO_MATCHING_DEVICE, Reason.TOO_FEW_DEVICES, Reason.DEVICES_COMPETE)


@dataclass(frozen=True, slots=True)
class Kept:
    """The replica stays, with these engines."""

    replica: Replica
    engines: tuple[PlacedEngine, ...]


@dataclass(frozen=True, slots=True)
class Leaving:
    """The replica stays as it is until a replacement is ready."""

    replica: Replica
    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The replica is not kept."""

    replica: Replica
    reason: str


Fate: TypeAlias = Kept | Leaving | Gone


def retain(
    deployment: Deployment,
    replicas: Iterable[Replica],
    clusters: Mapping[str, Cluster],
    placer: Placer,
    ledger: Ledger,
) -> list[Fate]:
    """Decide on every replica of the deployment, in order of name; the ledger follows what they become."""
    fates = []
    for replica in sorted(replicas, key=lambda replica: (replica.namespace, replica.name)):
        fate = _fate(deployment, replica, clusters, placer, ledger)
        if isinstance(fate, Kept):
            ledger.refund(replica.cluster, replica.engines)
            ledger.charge(replica.cluster, fate.engines)
        fates.append(fate)
    return fates


def _fate(
    deployment: Deployment, replica: Replica, clusters: Mapping[str, Cluster], placer: Placer, ledger: Ledger
) -> Fate:
    """Ask first what drops a replica at once, then whether it still fits where it is."""
    if replica.deleting:
        return Gone(replica, "it is being deleted")
    cluster = clusters.get(replica.cluster)
    if cluster is None:
        return Gone(replica, f'InferenceCluster "{replica.cluster}" does not exist')
    taints = evicting(deployment, cluster)
    if taints:
        return Gone(replica, f'taint {taints[0]} of InferenceCluster "{cluster.name}" evicts it')

    return _refit(deployment, replica, cluster, placer, ledger)


def _refit(
    deployment: Deployment, replica: Replica, cluster: Cluster, placer: Placer, ledger: Ledger
) -> Kept | Leaving:
    pins = pinned(replica)
    wanted = {pins[engine.name] for engine in deployment.engines if engine.name in pins}
    missing = sorted(wanted - {pool.name for pool in cluster.pools})
    if missing:
        why = f'pool {missing[0]} of InferenceCluster "{cluster.name}" is no longer published'
        # What a cluster in trouble does not publish may come back with it.
        return Leaving(replica, why) if cluster.ready else Kept(replica, replica.engines)

    placed = placer.place(cluster, room(replica, cluster, ledger), pins)
    if isinstance(placed, Misfit):
        return Leaving(replica, _why(placed, cluster))
    return Kept(replica, placed)


def pinned(replica: Replica) -> dict[str, str]:
    """Return the pool of each of the replica's engines."""
    return {engine.name: engine.members[0].pool for engine in replica.engines if engine.members}


def room(replica: Replica, cluster: Cluster, ledger: Ledger) -> list[int]:
    """Return the nodes of each pool that the replica may use: what it holds already, and what is free."""
    holds = held(replica.engines)
    return [
        holds[pool.name] + max(free, 0)
        for pool, free in zip(cluster.pools, ledger.free(cluster), strict=True)
    ]


def _why(misfit: Misfit, cluster: Cluster) -> str:
    pool, refusal = misfit.pools[0]
    place = f'pool {pool} of InferenceCluster "{cluster.name}"'
    subject = f'"{refusal.subject}": ' if refusal.reason in _OF_REQUESTS else ""
    return f"engine {misfit.engine} no longer fits {place}: {subject}{refusal.detail}"
