"""A ModelCache stages weights on the clusters that it selects."""

from modelplane.api.decode import decode_as
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import API_VERSION
from modelplane.api.model_cache import ModelCache
from modelplane.api.reasons import ModelCacheCondition as Type
from modelplane.api.reasons import ModelCacheReason as Reason
from modelplane.compose.composition import Composition, Request, Requirement, keep_all
from modelplane.compose.conditions import false, true


def requirements(_cache: ModelCache) -> tuple[Requirement, ...]:
    """Return what a cache may be staged on: every cluster."""
    return (Requirement("clusters", API_VERSION, "InferenceCluster"),)


def compose(request: Request[ModelCache]) -> Composition:
    """Say which clusters a cache covers; this version does not stage weights yet."""
    if cause := request.unknown("clusters"):
        return Composition(doubt=f"cannot list the clusters: {cause}")
    selector = request.owner.spec.cluster_selector
    wanted = dict(selector.match_labels) if selector else {}
    clusters = (decode_as(InferenceCluster, found) for found in request.found("clusters"))
    matched = sorted(
        cluster.metadata.name
        for cluster in clusters
        if wanted.items() <= cluster.metadata.labels.items()
        and cluster.status.cache
        and cluster.status.cache.storage_class_name
    )
    covered = (
        true(Type.CLUSTERS_MATCHED, Reason.MATCHED, f"covers {len(matched)} cluster(s)")
        if matched
        else false(
            Type.CLUSTERS_MATCHED,
            Reason.NO_CLUSTERS,
            "no selected cluster offers a ReadWriteMany StorageClass",
        )
    )
    staged = false(
        Type.ARTIFACT_READY,
        Reason.HYDRATING if matched else Reason.NO_CLUSTERS,
        "this version does not stage weights yet: let the engine load them itself",
    )
    return Composition(
        children=keep_all(request.observed),
        status={
            "summary": {"ready": f"0/{len(matched)}"},
            "clusters": [{"name": name, "phase": "Pending"} for name in matched],
        },
        conditions=(covered, staged),
        ready=False,
    )
