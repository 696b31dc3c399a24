"""Spot and on-demand pools: where new replicas of a deployment go, and which of them scale-down spares.

A replica is on spot if any of its pods is. New replicas go on demand until ``baseOnDemand`` of those that
stay are; the others go to spot pools first, and by price with policy ``Cheapest``. None that exists moves.
"""

from collections.abc import Container, Iterable, Iterator, Mapping

from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.api.rejected import Rejected
from modelplane.scheduler.placement.capacity_type import CapacityType
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, Deployment, PlacedEngine, Pool, Replica


def find_spot_pools(cluster: Cluster, engines: Iterable[PlacedEngine]) -> tuple[str, ...]:
    """Return the spot pools that a replica is in."""
    spot = [pool.name for pool in cluster.pools if pool.spot]
    if not spot:
        return ()
    used = {member.pool for engine in engines for member in engine.members}
    return tuple(name for name in spot if name in used)


def plan_steps(
    deployment: Deployment, count: int, on_demand: int
) -> Iterator[tuple[int, tuple[CapacityType, ...]]]:
    """Yield how many new replicas go to which pools, those that are tried first coming first.

    `on_demand` of the replicas that stay are on pools that are not spot.
    """
    spot = deployment.spot
    if spot is None:
        yield count, (CapacityType.ON_DEMAND,)
        return
    base = min(count, max(spot.base_on_demand - on_demand, 0))
    if base:
        yield base, (CapacityType.ON_DEMAND,)
    if count > base:
        is_first = (
            deployment.capacity_type is CapacityType.ANY and deployment.policy is not PlacementPolicy.CHEAPEST
        )
        yield count - base, (CapacityType.SPOT, CapacityType.ANY) if is_first else (deployment.capacity_type,)


def find_spared(
    deployment: Deployment,
    clusters: Mapping[str, Cluster],
    replicas: Iterable[Replica],
    first: Container[str],
) -> frozenset[str]:
    """Return the replicas, by name, that scale-down removes last, so that ``baseOnDemand`` is kept."""
    if deployment.spot is None or not deployment.spot.base_on_demand:
        return frozenset()
    held = sorted(
        (replica.name in first, not replica.serves, replica.cluster, replica.index, replica.name)
        for replica in replicas
        if replica.cluster in clusters and not find_spot_pools(clusters[replica.cluster], replica.engines)
    )
    return frozenset(name for *_, name in held[: deployment.spot.base_on_demand])


def check_capacity_type(deployment: Deployment, capacity_type: CapacityType, pool: Pool) -> Rejected | None:
    """Return why a pool is not one of those that a new replica may use; None if it is."""
    if pool.spot and capacity_type is CapacityType.ON_DEMAND:
        if deployment.spot is None:
            return Rejected(Reason.NOT_ON_SPOT, "spec.placement does not allow", "the pool is spot")
        kept = deployment.spot.base_on_demand
        return Rejected(Reason.NOT_ON_SPOT, f"baseOnDemand {kept} excludes", "the pool is spot")
    if not pool.spot and capacity_type is CapacityType.SPOT:
        return Rejected(Reason.NOT_ON_DEMAND, detail="the pool is not spot")
    return Rejected(Reason.SPOT_BLOCKED, detail=pool.blocked) if pool.blocked else None
