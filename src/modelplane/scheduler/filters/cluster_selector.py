"""The deployment's clusterSelector: labels that a cluster must carry."""

from modelplane.scheduler.filters.match_labels import differing
from modelplane.scheduler.types import Cluster, Deployment
from modelplane.scheduler.verdict import FIT, Reason, Rejected, Verdict


def cluster_selector(deployment: Deployment, cluster: Cluster) -> Verdict:
    """Refuse a cluster that lacks a label of the deployment's clusterSelector."""
    differs = differing(deployment.cluster_selector, cluster.labels)
    if not differs:
        return FIT
    return Rejected(
        Reason.CLUSTER_SELECTOR,
        detail=differs.text,
        remedy=f"remove {differs.wanted} from the clusterSelector, or label the cluster with it",
    )
