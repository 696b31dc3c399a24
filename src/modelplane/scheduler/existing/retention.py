"""Retention: each existing replica is kept, leaves, or is dropped.

No replica is dropped on doubt. It is dropped at once only when its cluster does not exist, when a NoExecute
taint evicts it, or when it is being deleted; one that no longer fits its cluster leaves when its replacement
is ready. So does one outside the deployment's regions, to which services send no requests meanwhile, and one
that a drain moves (`drain`). One on a lost cluster is replaced if the deployment asks for failover, and
stays until it is seen again (`failover`).

Retention does not check labels, the clusterSelector, the cache's footprint, readiness, the gateway, or free
capacity (unless the replica is to grow). To relabel a cluster or narrow a selector moves no serving replica;
neither does a cluster that fails or a pool that shrinks, in what is declared or in what is observed.

An edit that is tried with a part of the requests does not reach every replica. Those that are pinned are kept
as they are if they do not fit the edit.

Two deployments that are placed at the same time can get the same capacity. Then the newest replica that does
not serve yields to older ones and to those that serve: it leaves, as if it did not fit.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from modelplane.scheduler.capacity_ledger import Ledger
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.departures import Cause, Role
from modelplane.scheduler.filters.region_rule import check_known_region
from modelplane.scheduler.filters.taints import list_evicting
from modelplane.scheduler.placement.pool_choice import Pins
from modelplane.scheduler.placement.pool_rejections import PoolRejections
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, PlacedEngine, Replica

STILL_FITS: Final = "kept: still fits (clusterSelector and readiness are checked for new replicas only)"
PINNED: Final = "kept: the replica does not fit the edited template, and is not updated yet"
_OF_REQUESTS: Final = (Reason.NO_MATCHING_DEVICE, Reason.TOO_FEW_DEVICES, Reason.DEVICES_COMPETE)


class Kept(msgspec.Struct, frozen=True):
    """The replica stays, with these engines. `grows`: they take capacity that it does not hold yet."""

    replica: Replica
    engines: tuple[PlacedEngine, ...]
    reason: str = STILL_FITS
    grows: bool = False
    role: Role = Role.STAYS
    waits_for: Cause | None = None
    """The reason for which it leaves when its turn comes."""

    @property
    def is_stale(self) -> bool:
        """Return True if the replica does not have what its template makes of it yet."""
        return self.replica.behind or self.engines != self.replica.engines


class Leaving(msgspec.Struct, frozen=True):
    """The replica stays as it is until a replacement is ready, or as `until` says."""

    replica: Replica
    cause: Cause
    reason: str
    until: str = "a replacement is ready"


class Gone(msgspec.Struct, frozen=True):
    """The replica is not kept."""

    replica: Replica
    cause: Cause
    reason: str


RetentionDecision: TypeAlias = Kept | Leaving | Gone


def retain(state: CycleState, replicas: Iterable[Replica], pinned: Container[str]) -> list[RetentionDecision]:
    """Decide on every replica of the deployment, in order of name, and charge the ledger accordingly.

    Those whose names are `pinned` stay as they are if they do not fit.
    """
    decisions = (
        _decision(state, replica, is_pinned=replica.name in pinned)
        for replica in sorted(replicas, key=lambda replica: (replica.namespace, replica.name))
    )
    return [_charge(state, decision) if isinstance(decision, Kept) else decision for decision in decisions]


def unpin(state: CycleState, decision: Kept) -> Kept | Leaving:
    """Let a pinned replica have the deployment's template: it stays if it fits, and else leaves."""
    refitted = _refit(state, decision.replica, state.clusters[decision.replica.cluster])
    if isinstance(refitted, Leaving):
        return replace(refitted, cause=Cause.REPLACED)
    charged = replace(_charge(state, refitted), waits_for=decision.waits_for)
    hold((charged,), state.ledger)
    return charged


def _charge(state: CycleState, kept: Kept) -> Kept:
    """Charge what a kept replica grows by."""
    replica = kept.replica
    if not state.ledger.is_growing(state.clusters[replica.cluster], kept.engines, replica.engines):
        return kept
    state.ledger.refund(replica.cluster, replica.engines)
    state.ledger.charge(replica.cluster, kept.engines)
    state.quotas.grow(replica, kept.engines)
    return replace(kept, grows=True)


def hold(decisions: Iterable[RetentionDecision], ledger: Ledger) -> None:
    """Reserve the capacity that growing replicas give up elsewhere: they hold it until they are updated."""
    for decision in decisions:
        if isinstance(decision, Kept) and decision.grows:
            ledger.charge(decision.replica.cluster, decision.replica.engines, beyond=decision.engines)


def _decision(state: CycleState, replica: Replica, *, is_pinned: bool) -> RetentionDecision:
    """Check first what drops a replica at once, then whether it still fits its cluster."""
    if replica.deleting:
        return depart(replica, Cause.DELETED, "the replica is being deleted")
    cluster = state.clusters.get(replica.cluster)
    if cluster is None:
        return depart(replica, Cause.NO_CLUSTER, f'InferenceCluster "{replica.cluster}" does not exist')
    name = f'InferenceCluster "{cluster.name}"'
    if taints := list_evicting(state.deployment, cluster):
        return depart(replica, Cause.TAINTED, f"taint {taints[0]} of {name} evicts the replica")
    if rejected := check_known_region(state.deployment, cluster):
        return depart(replica, Cause.REGION, f"{name} is not allowed to serve the replica: {rejected.detail}")
    if cluster.lost:
        return Leaving(
            replica,
            Cause.LOST,
            cluster.lost,
            f"{name} answers again and a replacement is serving, or is deleted",
        )
    return _refit(state, replica, cluster, is_pinned=is_pinned)


def depart(replica: Replica, cause: Cause, why: str) -> Leaving | Gone:
    """Let a replica leave as the table says: at once, or once a replacement serves."""
    return (Leaving if cause.value.replacement_first else Gone)(replica, cause, why)


def _refit(
    state: CycleState, replica: Replica, cluster: Cluster, *, is_pinned: bool = False
) -> Kept | Leaving:
    pins = find_pins(replica)
    names = pins if is_pinned else [engine.name for engine in state.deployment.engines]
    pools = {pool for name in names for pool in pins.get(name, ())}
    missing = sorted(pools - {pool.name for pool in cluster.pools})
    if missing:
        pool = f'pool {missing[0]} of InferenceCluster "{cluster.name}"'
        if cluster.ready:
            return Leaving(replica, Cause.NO_POOL, f"{pool} is no longer published")
        # The pools of a cluster in trouble may come back with it.
        why = f"already placed; {pool} is unknown until the cluster is ready"
        # Else it has a pod for each that the engines of the deployment ask for.
        is_as_it_is = is_pinned or not all(
            len(pins.get(engine.name, ())) == len(engine.members) for engine in state.deployment.engines
        )
        return Kept(replica, replica.engines, why, role=Role.PINNED if is_as_it_is else Role.STAYS)

    if is_pinned:
        return Kept(replica, replica.engines, PINNED, role=Role.PINNED)
    if all(engine.name in pins for engine in state.deployment.engines):
        resolved = state.chooser.resolve(cluster, pins)
        if isinstance(resolved, PoolRejections):
            return _misfit(replica, resolved, cluster)
        if not state.ledger.is_growing(cluster, resolved, replica.engines):
            return Kept(replica, resolved)
    return _regrown(state, replica, cluster, pins)


def _misfit(replica: Replica, rejections: PoolRejections, cluster: Cluster) -> Leaving:
    pool, rejected = rejections.pools[0]
    place = f'pool {pool} of InferenceCluster "{cluster.name}"'
    subject = f'"{rejected.subject}": ' if rejected.reason in _OF_REQUESTS else ""
    why = f"engine {rejections.engine} no longer fits {place}: {subject}{rejected.detail}"
    return Leaving(replica, Cause.MISFIT, why)


def _regrown(state: CycleState, replica: Replica, cluster: Cluster, pins: Pins) -> Kept | Leaving:
    """Keep a replica that needs more than it holds, if its pools and its quota have that for it."""
    placed = state.chooser.place(
        cluster, state.ledger.list_capacities(cluster, without=replica.engines), pins
    )
    if isinstance(placed, PoolRejections):
        return _misfit(replica, placed, cluster)
    rejected = state.quotas.check(cluster, placed, replica.engines)
    if why := state.quotas.problem or (rejected and rejected.detail):
        return Leaving(replica, Cause.MISFIT, f"the edit needs more devices: {why}")
    return Kept(replica, placed)


def find_pins(replica: Replica) -> Pins:
    """Return the pools of each of the replica's engines."""
    return {
        engine.name: tuple(member.pool for member in engine.members)
        for engine in replica.engines
        if engine.members
    }


def give_way(
    state: CycleState, decisions: Sequence[RetentionDecision], replicas: Iterable[Replica]
) -> list[RetentionDecision]:
    """Let kept replicas leave whose capacity belongs to another deployment's replica."""
    ledger = state.ledger
    kept = {decision.replica.cluster for decision in decisions if isinstance(decision, Kept)}
    losers: dict[tuple[str, str], str] = {}
    for name in sorted(kept):
        cluster = state.clusters[name]
        full = [at for at, capacity in enumerate(ledger.list_declared(cluster)) if capacity.overcommitted]
        if full:
            losers |= _losers(
                cluster, full, [replica for replica in replicas if replica.cluster == name], ledger
            )
    return [
        mark_leaving(state, decision, Cause.YIELDS, why)
        if isinstance(decision, Kept)
        and (why := losers.get((decision.replica.namespace, decision.replica.name)))
        else decision
        for decision in decisions
    ]


def mark_leaving(state: CycleState, decision: Kept, cause: Cause, why: str) -> Leaving:
    """Let a kept replica leave: it holds what it has, and does not grow."""
    if decision.grows:
        state.ledger.refund(decision.replica.cluster, decision.engines)
        state.ledger.charge(decision.replica.cluster, decision.replica.engines)
        state.quotas.grow(decision.replica, decision.engines, sign=-1)
    return Leaving(decision.replica, cause, why)


def _losers(
    cluster: Cluster, full: Sequence[int], replicas: Sequence[Replica], ledger: Ledger
) -> dict[tuple[str, str], str]:
    """Return the replicas that yield, by namespace and name, and why."""
    losers: dict[tuple[str, str], str] = {}
    for at in full:
        pool = cluster.pools[at].name
        holders = sorted((candidate for candidate in replicas if _holds(candidate, pool)), key=_standing)
        gone: list[PlacedEngine] = []
        for position in reversed(range(len(holders))):
            replica = holders[position]
            before = {other.deployment_uid for other in holders[:position]} - {replica.deployment_uid}
            if not ledger.list_declared(cluster, gone)[at].overcommitted:
                break
            if before and not (replica.ready or replica.deleting):
                gone += replica.engines
                losers[replica.namespace, replica.name] = (
                    f'pool {pool} of InferenceCluster "{cluster.name}" was also allocated to another '
                    "deployment"
                )
    return losers


def _standing(replica: Replica) -> tuple[bool, str, str, str]:
    """Sort those that serve before the others, and the oldest first."""
    return (not replica.ready, replica.created, replica.deployment_uid, replica.name)


def _holds(replica: Replica, pool: str) -> bool:
    return any(
        member.pool == pool and member.claims for engine in replica.engines for member in engine.members
    )
