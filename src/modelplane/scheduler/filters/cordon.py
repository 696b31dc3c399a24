"""Cordoned and draining clusters and pools get no new replica, whatever a deployment tolerates."""

from modelplane.api.rejected import Rejected
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, Deployment, Pool


def check_cordon(_: Deployment, cluster: Cluster) -> Rejected | None:
    """Refuse a cluster that is cordoned or draining."""
    if not cluster.cordon:
        return None
    remedy = f"uncordon the cluster: modelplane cluster uncordon {cluster.name}"
    return Rejected(Reason.CORDONED, str(cluster.cordon), remedy=remedy)


def refuse_pool(pool: Pool) -> Rejected:
    """Return the refusal of a pool that is cordoned or draining."""
    # Without the pool's name: pools that are alike share the refusal.
    remedy = "uncordon the pool: modelplane cluster uncordon CLUSTER --pool POOL"
    return Rejected(Reason.CORDONED, str(pool.cordon), f"the pool is {pool.cordon}", remedy=remedy)
