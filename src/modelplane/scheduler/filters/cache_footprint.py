"""The clusters on which the deployment's ModelCache stages its weights."""

from modelplane.scheduler.cluster import Cluster
from modelplane.scheduler.deployment import Deployment
from modelplane.scheduler.filters.labels import differing
from modelplane.scheduler.verdict import FIT, Reason, Rejected, Verdict


def cache_footprint(deployment: Deployment, cluster: Cluster) -> Verdict:
    """Refuse a cluster that the deployment's cache does not cover."""
    if deployment.cache is None:
        return FIT
    detail = differing(deployment.cache.labels, cluster.labels)
    return Rejected(Reason.CACHE_FOOTPRINT, detail=detail) if detail else FIT
