"""Spot pools get new replicas of deployments that consent, and none while they lose nodes."""

from modelplane.scheduler.placement.market import Market
from modelplane.scheduler.types import Deployment, Pool
from modelplane.scheduler.verdict import Reason, Rejected


def spot(deployment: Deployment, market: Market, pool: Pool) -> Rejected | None:
    """Return why a pool is not one of those that a new replica may use; None if it is."""
    if pool.spot and market is Market.ON_DEMAND:
        if deployment.spot is None:
            return Rejected(Reason.NOT_ON_SPOT, "placement does not allow", "the pool is spot")
        kept = deployment.spot.base_on_demand
        return Rejected(Reason.NOT_ON_SPOT, f"baseOnDemand {kept} leaves out", "the pool is spot")
    if not pool.spot and market is Market.SPOT:
        return Rejected(Reason.NOT_ON_DEMAND, detail="the pool is not spot")
    return Rejected(Reason.SPOT_BLOCKED, detail=pool.blocked) if pool.blocked else None
