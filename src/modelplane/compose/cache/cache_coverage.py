"""Coverage of a ModelCache: the clusters that it is staged on, and its turn on each.

A cluster matches the clusterSelector, is in the regions of the cache and of a deployment that uses it, and
has volumes that many pods may mount.

A Job that fills a volume takes processors of the cluster, also while its source does not answer. So the
caches of one namespace must not take those of the others.
"""

from modelplane import scheduler
from modelplane.api.conditions.reasons import ModelCacheCondition as Type, ModelCacheReason as Reason
from modelplane.api.fields.requests.regions import describe_place, format_regions
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_cache import CachePhase, ModelCache
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_list
from modelplane.compose.composition import Requirement
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.facts import CacheRequest
from modelplane.gateway.region_routing import RegionRule

AT_A_TIME = 2
"""Jobs of a namespace on one cluster."""

WAITING = (
    f"waiting: at most {AT_A_TIME} ModelCaches per namespace are staged on a cluster at a time, oldest first"
)

_KEY = "caches"

_ENDED = (CachePhase.READY, CachePhase.FAILED)


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
    return false(Type.CLUSTERS_MATCHED, Reason.NO_MATCH, message)


def requirement(namespace: str) -> Requirement:
    """Return the caches of a namespace, which matter to one that waits for its turn."""
    return Requirement(_KEY, API_VERSION, kind_name(ModelCache), namespace, triggers=False)


def must_wait(request: CacheRequest, cluster: str) -> bool:
    """Return True if older caches of the namespace have their turn on a cluster."""
    metadata = request.owner.metadata
    created = metadata.creation_timestamp
    own = f"{created:%Y-%m-%dT%H:%M:%SZ}" if created else "", metadata.name
    ahead = [
        item
        for item in request.found(_KEY)
        if (str(item["metadata"].get("creationTimestamp", "")), item["metadata"]["name"]) < own
        and _is_staged_on(item, cluster)
    ]
    return len(ahead) >= AT_A_TIME


def _is_staged_on(cache: Object, cluster: str) -> bool:
    """Return True if a cache is to be staged on a cluster, and is not yet."""
    entries = get_list(cache, "status", "clusters") if "deletionTimestamp" not in cache["metadata"] else ()
    return any(entry.get("name") == cluster and entry.get("phase") not in _ENDED for entry in entries)
