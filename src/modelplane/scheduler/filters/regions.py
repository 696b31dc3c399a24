"""The deployment's region rule: the regions in which it may be served."""

from modelplane.api import labels
from modelplane.api.regions import listed, place
from modelplane.scheduler.types import Cluster, Deployment
from modelplane.scheduler.verdict import FIT, Reason, Rejected, Verdict


def regions(deployment: Deployment, cluster: Cluster) -> Verdict:
    """Refuse a cluster outside the deployment's regions; one without a region is outside all of them."""
    if not deployment.regions or cluster.region in deployment.regions:
        return FIT
    if cluster.region is None:
        return Rejected(Reason.OUTSIDE_REGIONS, detail=cluster.not_ready or "its region is unknown")
    return Rejected(Reason.OUTSIDE_REGIONS, detail=outside(deployment, cluster), remedy=_remedy(cluster))


def outside(deployment: Deployment, cluster: Cluster) -> str:
    """Return why a cluster is known to be outside the deployment's regions; empty if it is not known."""
    if not deployment.regions or cluster.region is None or cluster.region in deployment.regions:
        return ""
    return f"it is {place(cluster.region)}, not in {listed(deployment.regions)}"


def _remedy(cluster: Cluster) -> str:
    if not cluster.region:
        return f"label the cluster {labels.REGION}=REGION"
    return f'add "{cluster.region}" to the deployment\'s regions, if it may be served there'
