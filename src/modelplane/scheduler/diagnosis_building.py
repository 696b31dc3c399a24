"""Diagnosis of a placement, from the refusals of its passes, with remedies.

While every replica is placed, no refusal is examined.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from modelplane.api.listing import count_noun, listing
from modelplane.api.rejected import Rejected
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.diagnosis import Block, Diagnosis, Exclusion
from modelplane.scheduler.existing.retention import Kept, Leaving
from modelplane.scheduler.free_capacity import FreeCapacity, NodeCapacity
from modelplane.scheduler.placement.cluster_choice import Filled
from modelplane.scheduler.placement.pool_rejections import Excluded
from modelplane.scheduler.placement.unmet_conditions import Details, find_unmet
from modelplane.scheduler.preemption import Displacement, Precedence
from modelplane.scheduler.remedies import find_remedies
from modelplane.scheduler.types import Pool


def diagnose(
    state: CycleState, kept: Sequence[Kept], leaving: Sequence[Leaving], filled: Filled
) -> Diagnosis:
    """Explain a placement."""
    deployment, selection = state.deployment, state.chooser.selection
    placed = len(kept) + len(filled.placed)
    details = Details(selection)
    excluded = sorted(filled.excluded, key=lambda entry: entry[0].name)
    cause, why = find_block(state)
    return Diagnosis(
        wanted=deployment.replicas,
        placed=placed,
        clusters=len(state.clusters),
        excluded=tuple(exclusion for entry in excluded for exclusion in _list_exclusions(entry, details)),
        blocked=why if placed < deployment.replicas else "",
        block=cause if placed < deployment.replicas else Block.NONE,
        causes=find_unmet(excluded, selection),
        remedies=find_remedies(state.limit_to(filled.capacity_type), excluded, leaving) if excluded else (),
        notes=(
            *(
                f'replica "{decision.replica.name}" is kept until {decision.until}: {decision.reason}'
                for decision in leaving
            ),
            *_overcommitted(state, kept),
        ),
    )


def find_block(state: CycleState) -> tuple[Block, str]:
    """Return what keeps every new replica from being placed, whatever the clusters offer, and in words."""
    cache = state.deployment.cache
    if cache is not None and not cache.known:
        return Block.CACHE, "waiting for the ModelCache before placing new replicas"
    if state.quotas.problem:
        return Block.QUOTA, state.quotas.problem
    if problem := state.deployment.priority.problem:
        return Block.PRIORITY, problem
    return Block.NONE, ""


def add_precedence(
    diagnosis: Diagnosis, ahead: Precedence, displaced: Mapping[str, str], wanted: Displacement | None
) -> Diagnosis:
    """Add to a diagnosis which deployments come first, and the replicas that leave, here or for this one."""
    notes = [f'replica "{name}" is being withdrawn: {why}' for name, why in sorted(displaced.items())]
    if diagnosis.unsatisfied and (note := ahead.describe()):
        notes.append(note)
    if wanted is not None and wanted.replicas:
        names = listing(f"{replica.namespace}/{replica.name}" for replica in wanted.replicas)
        count = count_noun(len(wanted.replicas), "replica")
        verb = "leaves" if len(wanted.replicas) == 1 else "leave"
        notes.append(f"{count} of lower priority {verb} for the next replica: {names}")
    return replace(diagnosis, notes=(*diagnosis.notes, *notes), preempted=bool(displaced))


def _list_exclusions(excluded: Excluded, details: Details) -> Iterable[Exclusion]:
    cluster, why = excluded
    if isinstance(why, Rejected):
        return (Exclusion(cluster.name, "", "", why),)
    return (
        Exclusion(cluster.name, pool, why.engine, details.complete(rejected, cluster, pool))
        for pool, rejected in why.pools
    )


def _overcommitted(state: CycleState, kept: Iterable[Kept]) -> Iterable[str]:
    """Yield the pools of kept replicas that hold more than they have."""
    used = {
        (decision.replica.cluster, member.pool)
        for decision in kept
        for engine in decision.engines
        for member in engine.members
        if member.claims
    }
    for name in sorted({cluster for cluster, _ in used}):
        cluster = state.clusters[name]
        for pool, capacity in zip(cluster.pools, state.ledger.list_capacities(cluster), strict=True):
            if capacity.overcommitted and (name, pool.name) in used:
                yield (
                    f'pool {pool.name} of InferenceCluster "{name}" is overcommitted: replicas use '
                    f"{describe_usage(pool, capacity)}"
                )


def describe_usage(pool: Pool, capacity: FreeCapacity) -> str:
    """Return what replicas hold of a pool, beside what it has."""
    usable = "usable " if pool.usable else ""
    if isinstance(capacity, NodeCapacity):
        return f"{capacity.taken} of its {capacity.nodes} {usable}nodes"
    parts = []
    for entry, device in enumerate(pool.devices):
        if held := capacity.count_taken(entry):
            parts.append(f"{held} of its {capacity.count_usable(entry)} {usable}{device.name}")
    return f"{' and '.join(parts) or 'devices'}, and a replica that restarts might not fit again"
