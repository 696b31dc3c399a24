"""Placement policy: the order in which Spread, Pack and Cheapest prefer clusters and pools."""

from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.scheduler.placement.cost import Cost


def rank_choice(policy: PlacementPolicy, cost: Cost) -> tuple[int, ...]:
    """Return the amounts by which choices of pools are compared, the most important first."""
    if policy is PlacementPolicy.CHEAPEST:
        return cost.unpriced, cost.price, cost.stranded
    return cost.stranded, cost.unpriced, cost.price


def rank_cluster(policy: PlacementPolicy | None, load: int, cost: Cost) -> tuple[int, ...]:
    """Return the rank of a cluster with `load` replicas of the deployment; the lowest gets the next one.

    The tie-break between clusters of one rank is in ``scheduler/placement/cluster_queue.py``.
    """
    policy = policy or PlacementPolicy.SPREAD
    amounts = rank_choice(policy, cost)
    if policy is PlacementPolicy.CHEAPEST:
        return (*amounts, load)
    return (-load if policy is PlacementPolicy.PACK else load, *amounts)
