"""Drains: which replicas of draining clusters and pools move now, and which wait for their turn.

A replica that moves leaves: its replacement is placed elsewhere, and
`compose/deployment/replica_lifecycle.py` holds the old one until that one serves. The moves in progress are
derived from the replicas each time, so that nothing outlives the end of a drain: a replica moves while a
replacement of its deployment is starting. A rollout's surge replica replaces none. One that is not ready
needs no turn, because no request is lost with it; so a deployment that never becomes ready delays no other.
Nor does a replacement that has been starting for too long.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from modelplane.api.fields.cluster.drain_settings import Cordon
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.departures import Cause
from modelplane.scheduler.existing.retention import Kept, Leaving, RetentionDecision, mark_leaving
from modelplane.scheduler.types import Cluster, Fleet, Replica


def describe_drain(cluster: Cluster, replica: Replica) -> str | None:
    """Return the draining place that a replica is in, as part of a sentence; None if it is in none."""
    name = f'InferenceCluster "{cluster.name}"'
    if cluster.cordon is Cordon.DRAINING:
        return name
    pools = {member.pool for engine in replica.engines for member in engine.members}
    closed = (pool for pool in cluster.pools if pool.name in pools and pool.cordon is Cordon.DRAINING)
    return next((f"pool {pool.name} of {name}" for pool in closed), None)


def list_moving(
    clusters: Mapping[str, Cluster], replicas: Iterable[Replica], stuck_before: str = ""
) -> list[Replica]:
    """Return the replicas that drains are moving: of each deployment as many as replacements are starting.

    A replacement that was created before `stuck_before` starts no more: it is stuck.
    """
    draining = {name for name, cluster in clusters.items() if is_draining(cluster)}
    if not draining:
        return []
    draining_of: dict[str, list[Replica]] = {}
    starting: Counter[str] = Counter()
    for replica in sorted(replicas, key=_order):
        if replica.withdrawn:
            continue
        if replica.cluster not in draining or not describe_drain(clusters[replica.cluster], replica):
            is_stuck = bool(replica.created) and replica.created < stuck_before
            starting[replica.deployment_uid] += not (replica.ready or replica.surge or is_stuck)
        elif replica.ready:
            draining_of.setdefault(replica.deployment_uid, []).append(replica)
    return [leaving for uid, ready in draining_of.items() for leaving in ready[: starting[uid]]]


def is_draining(cluster: Cluster) -> bool:
    """Return True if a cluster or a pool of it is being drained."""
    return Cordon.DRAINING in (cluster.cordon, *(pool.cordon for pool in cluster.pools))


def drain(state: CycleState, decisions: Sequence[RetentionDecision], fleet: Fleet) -> list[RetentionDecision]:
    """Let kept replicas of draining places leave, as many as may move at a time."""
    kept = [decision for decision in decisions if isinstance(decision, Kept)]
    places = {
        decision.replica.name: describe_drain(state.clusters[decision.replica.cluster], decision.replica)
        for decision in kept
    }
    draining = sorted((decision.replica for decision in kept if places[decision.replica.name]), key=_order)
    if not draining:
        return list(decisions)
    others = (other for other in fleet.replicas if other.deployment_uid != state.deployment.uid)
    moves = Counter(moving.cluster for moving in list_moving(state.clusters, others, fleet.stuck_before))
    waits: dict[str, str] = {}
    for replica in draining:
        if replica.draining or not replica.ready:
            continue
        if no_room := _explain_no_room(state.clusters[replica.cluster], moves):
            waits[replica.name] = no_room
        else:
            moves[replica.cluster] += 1
    # Those beyond the wanted number replace draining ones, whose move has begun. A rollout's surge replica
    # replaces none.
    replacements = sum(not decision.replica.surge for decision in kept) - state.deployment.replicas
    leaving = len(draining) - len(waits)
    for name in list(waits)[: max(replacements - leaving, 0)]:
        del waits[name]
    return [
        _decided(state, decision, places, waits) if isinstance(decision, Kept) else decision
        for decision in decisions
    ]


def _decided(
    state: CycleState, decision: Kept, places: Mapping[str, str | None], waits: Mapping[str, str]
) -> Kept | Leaving:
    name = decision.replica.name
    if not places[name]:
        return decision
    if name in waits:
        reason = f"{places[name]} is draining; the replica waits to move: {waits[name]}"
        return replace(decision, reason=reason, waits_for=Cause.DRAINED)
    return mark_leaving(state, decision, Cause.DRAINED, f"{places[name]} is draining")


def _explain_no_room(cluster: Cluster, moves: Counter[str]) -> str | None:
    """Return why no further replica of a cluster may begin to move; None if one may."""
    for count, most, whose, field in (
        (moves[cluster.name], cluster.max_moving, "of the cluster", "maxMoving"),
        (moves.total(), cluster.max_moving_in_fleet, "of the fleet", "maxMovingInFleet"),
    ):
        if count >= most:
            return f"{count} of at most {most} replicas {whose} are already moving (spec.drain.{field})"
    return None


def _order(replica: Replica) -> tuple[str, str, str]:
    return replica.cluster, replica.namespace, replica.name
