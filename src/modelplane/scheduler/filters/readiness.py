"""Whether a cluster can take new replicas at all: it is ready, and its gateway can be reached."""

from modelplane.scheduler.cluster import Cluster
from modelplane.scheduler.deployment import Deployment
from modelplane.scheduler.verdict import FIT, Reason, Rejected, Verdict


def readiness(_: Deployment, cluster: Cluster) -> Verdict:
    """Refuse a cluster that is not ready."""
    return FIT if cluster.ready else Rejected(Reason.NOT_READY, detail=cluster.not_ready)


def gateway(_: Deployment, cluster: Cluster) -> Verdict:
    """Refuse a cluster whose gateway has no address: nothing could reach a replica there."""
    return FIT if cluster.gateway_address else Rejected(Reason.NO_GATEWAY)
