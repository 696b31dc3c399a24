"""Filter by readiness: a new replica needs a ready cluster whose gateway has an address."""

from modelplane.scheduler.types import Cluster, Deployment
from modelplane.scheduler.verdict import FIT, Reason, Rejected, Verdict


def check_readiness(_: Deployment, cluster: Cluster) -> Verdict:
    """Refuse a cluster that is not ready."""
    if cluster.ready:
        return FIT
    remedy = f"see kubectl describe inferencecluster {cluster.name}"
    return Rejected(Reason.NOT_READY, detail=cluster.not_ready, remedy=remedy)


def check_gateway(_: Deployment, cluster: Cluster) -> Verdict:
    """Refuse a cluster whose gateway has no address: nothing could reach a replica there."""
    if cluster.gateway_address:
        return FIT
    return Rejected(Reason.NO_GATEWAY, remedy="see to it that the cluster's gateway gets an address")
