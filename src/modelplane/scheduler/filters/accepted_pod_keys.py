"""Filter by the labels, annotations and variables of a deployment's pods."""

from functools import lru_cache

from modelplane.api.fields.pods.pod_keys import VARIABLE, find_refused
from modelplane.api.rejected import Rejected
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, Deployment

_refused = lru_cache(maxsize=1024)(find_refused)
"""Most clusters have the same rules."""


def check_pod_keys(deployment: Deployment, cluster: Cluster) -> Rejected | None:
    """Refuse a cluster that does not accept a part of the pods; the detail lists those parts."""
    refused = _refused(deployment.pod_parts, cluster.pod_keys) if deployment.pod_parts else ()
    if not refused:
        return None
    remedy = "remove the rejected keys"
    if any(part.what != VARIABLE for part in refused):
        remedy += ", or let the platform team add it to spec.podKeys.accept of the InferenceCluster"
    return Rejected(Reason.PODS_NOT_ACCEPTED, detail=", ".join(map(str, refused)), remedy=remedy)
