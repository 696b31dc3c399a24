"""Filter by readiness: a new replica needs a ready cluster whose gateway has an address."""

from modelplane.api.rejected import Rejected
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, Deployment


def check_readiness(_: Deployment, cluster: Cluster) -> Rejected | None:
    """Refuse a cluster that is not ready."""
    if cluster.ready:
        return None
    remedy = f"run kubectl describe inferencecluster {cluster.name}"
    return Rejected(Reason.NOT_READY, detail=cluster.not_ready, remedy=remedy)


def check_gateway(_: Deployment, cluster: Cluster) -> Rejected | None:
    """Refuse a cluster whose gateway has no address: nothing could reach a replica there."""
    if cluster.gateway_address:
        return None
    return Rejected(Reason.NO_GATEWAY, remedy="give the cluster's gateway an address")
