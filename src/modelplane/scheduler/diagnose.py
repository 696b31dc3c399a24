"""From what the passes refused to a diagnosis, and to the change that would help.

One rule: nothing here is computed while every replica has its place.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from modelplane.scheduler.cluster import Cluster
from modelplane.scheduler.deployment import Deployment
from modelplane.scheduler.diagnosis import Diagnosis, Refusal
from modelplane.scheduler.engines import Misfit, Placer
from modelplane.scheduler.fill import Filled, Refused
from modelplane.scheduler.ledger import Ledger, held
from modelplane.scheduler.retention import Kept, Leaving, pinned, room
from modelplane.scheduler.verdict import Reason, Rejected

_NODE_REASONS: Final = (Reason.NO_FREE_NODES, Reason.ENGINES_COMPETE)
_REMEDIES_TRIED: Final = 16
_PLENTY: Final = 10**9


def diagnose(
    deployment: Deployment,
    clusters: Mapping[str, Cluster],
    kept: Sequence[Kept],
    leaving: Sequence[Leaving],
    filled: Filled,
    placer: Placer,
    ledger: Ledger,
) -> Diagnosis:
    """Explain a placement."""
    placed = len(kept) + len(filled.placed)
    refused = sorted(filled.refused, key=lambda each: each.cluster.name)
    waits = deployment.cache is not None and not deployment.cache.known and placed < deployment.replicas
    return Diagnosis(
        wanted=deployment.replicas,
        placed=placed,
        clusters=len(clusters),
        refusals=tuple(refusal for each in refused for refusal in _refusals(each)),
        blocked="its ModelCache cannot be read, so nothing new is placed" if waits else "",
        remedy=_remedy(refused, leaving, clusters, placer, ledger) if refused else "",
        notes=(*_notes(leaving), *_overcommitted(kept, clusters, ledger)),
    )


def _refusals(refused: Refused) -> Iterable[Refusal]:
    name, refusal = refused.cluster.name, refused.refusal
    if isinstance(refusal, Rejected):
        return (Refusal(name, "", "", refusal.reason, refusal.subject, refusal.detail),)
    return (
        Refusal(name, pool, refusal.engine, each.reason, each.subject, each.detail, each.reads)
        for pool, each in refusal.pools
    )


def _remedy(
    refused: Sequence[Refused],
    leaving: Sequence[Leaving],
    clusters: Mapping[str, Cluster],
    placer: Placer,
    ledger: Ledger,
) -> str:
    """Return the fewest nodes that one pool would need more, for one more replica or for one to stay."""
    short = [each.cluster for each in refused if _lacks_nodes(each)][:_REMEDIES_TRIED]
    choices = [
        choice for cluster in short for choice in _missing_nodes(cluster, ledger.free(cluster), placer, None)
    ]
    for fate in leaving[:_REMEDIES_TRIED]:
        cluster = clusters[fate.replica.cluster]
        free = room(fate.replica, cluster, ledger)
        choices.extend(_missing_nodes(cluster, free, placer, pinned(fate.replica)))
    if not choices:
        return ""
    nodes, name, position = min(choices)
    noun = "node" if nodes == 1 else "nodes"
    return f'add {nodes} {noun} to pool {clusters[name].pools[position].name} of InferenceCluster "{name}"'


def _lacks_nodes(refused: Refused) -> bool:
    return isinstance(refused.refusal, Misfit) and any(
        refusal.reason in _NODE_REASONS for _, refusal in refused.refusal.pools
    )


def _missing_nodes(
    cluster: Cluster, free: Sequence[int], placer: Placer, pins: Mapping[str, str] | None
) -> Iterable[tuple[int, str, int]]:
    """Yield (nodes, cluster, position) for each pool that would do if it had so many nodes more."""
    for position, pool in enumerate(cluster.pools):
        enlarged = [*free]
        enlarged[position] = _PLENTY
        placed = placer.place(cluster, enlarged, pins)
        if isinstance(placed, Misfit):
            continue
        missing = held(placed)[pool.name] - free[position]
        if missing > 0:
            yield missing, cluster.name, position


def _notes(leaving: Iterable[Leaving]) -> Iterable[str]:
    return (
        f'replica "{fate.replica.name}" stays until a replacement is ready: {fate.reason}' for fate in leaving
    )


def _overcommitted(kept: Iterable[Kept], clusters: Mapping[str, Cluster], ledger: Ledger) -> Iterable[str]:
    """Yield the pools of kept replicas that hold more than they have."""
    used = {(fate.replica.cluster, pool) for fate in kept for pool in held(fate.engines)}
    for name in sorted({cluster for cluster, _ in used}):
        cluster = clusters[name]
        for pool, free in zip(cluster.pools, ledger.free(cluster), strict=True):
            if free < 0 and (name, pool.name) in used:
                yield (
                    f'pool {pool.name} of InferenceCluster "{name}" is overcommitted: '
                    f"replicas hold {pool.nodes - free} of its {pool.nodes} nodes"
                )
