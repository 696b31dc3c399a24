"""Coverage of a ModelCache: the clusters that it is staged on.

A cluster matches the clusterSelector, is in the regions of the cache and of a deployment that uses it, and
has volumes that many pods may mount.
"""

from modelplane import scheduler
from modelplane.api.conditions.reasons import ModelCacheCondition as Type
from modelplane.api.conditions.reasons import ModelCacheReason as Reason
from modelplane.api.fields.requests.regions import describe_place, format_regions
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.model_cache import ModelCache
from modelplane.api.rejected import Rejected
from modelplane.compose.conditions import Condition, false, true
from modelplane.gateway.region_routing import RegionRule


def uncovered(cache: ModelCache, cluster: InferenceCluster, regions: RegionRule | None) -> Rejected | None:
    """Return why a cache does not cover a cluster; None if it does."""
    if cluster.metadata.deletion_timestamp:
        return Rejected(detail="the cluster is being deleted")
    selector = cache.spec.cluster_selector
    if selector and not selector.match_labels.items() <= cluster.metadata.labels.items():
        return Rejected(detail="the cluster does not match clusterSelector")
    own = cache.spec.regions
    if own and cluster.find_region() not in own:
        place = describe_place(cluster.find_region())
        return Rejected(
            scheduler.Reason.OUTSIDE_REGIONS, detail=f"the cluster is {place}, not in {format_regions(own)}"
        )
    if regions and cluster.find_region() not in regions.regions:
        place = describe_place(cluster.find_region())
        return Rejected(scheduler.Reason.OUTSIDE_REGIONS, detail=f"the cluster is {place}, and {regions}")
    storage = cluster.status.cache
    if storage and storage.storage_class_name:
        return None
    return Rejected(detail="the cluster reports no StorageClass for caches")


def covered(cache: ModelCache, clusters: int, regions: RegionRule | None) -> Condition:
    """Return the condition that tells on how many clusters a cache is staged."""
    if clusters:
        noun = "cluster" if clusters == 1 else "clusters"
        return true(Type.CLUSTERS_MATCHED, Reason.MATCHED, f"covers {clusters} {noun}")
    within = " and the regions" if regions or cache.spec.regions else ""
    message = (
        f"no cluster that matches clusterSelector{within} has a ReadWriteMany StorageClass: "
        "set spec.cluster.existing.cache.storageClassName of an Existing cluster"
    )
    return false(Type.CLUSTERS_MATCHED, Reason.NO_CLUSTERS, message)
