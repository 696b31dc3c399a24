"""The clusters on which the deployment's ModelCache stages its weights."""

from modelplane.api.rejected import Rejected
from modelplane.scheduler.filters.cluster_selector import find_difference
from modelplane.scheduler.filters.region_rule import reject_region
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, Deployment


def check_cache_footprint(deployment: Deployment, cluster: Cluster) -> Rejected | None:
    """Refuse a cluster that the deployment's cache does not cover."""
    if deployment.cache is None:
        return None
    differs = find_difference(deployment.cache.labels, cluster.labels)
    if differs:
        return Rejected(
            Reason.CACHE_FOOTPRINT,
            detail=differs.text,
            remedy=f"remove {differs.wanted} from the cache's clusterSelector, or label the cluster with it",
        )
    regions = deployment.cache.regions
    if regions and cluster.region not in regions:
        unknown = Rejected(Reason.CACHE_FOOTPRINT, detail="the cluster's region is unknown")
        return reject_region(regions, cluster, Reason.CACHE_FOOTPRINT, "the cache's regions") or unknown
    if deployment.cache.known and not cluster.cache_storage:
        return Rejected(
            Reason.CACHE_FOOTPRINT,
            detail="the cluster has no StorageClass for caches",
            remedy="if the cluster has a ReadWriteMany StorageClass, set it in spec.cluster.existing.cache",
        )
    return None
