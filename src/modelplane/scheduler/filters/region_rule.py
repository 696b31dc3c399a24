"""The deployment's region rule: the regions in which it may be served."""

from collections.abc import Sequence

from modelplane.api import labels
from modelplane.api.fields.requests.regions import describe_place, format_regions
from modelplane.api.rejected import Rejected
from modelplane.scheduler.types import Cluster, Deployment
from modelplane.scheduler.verdict import Reason


def check_regions(deployment: Deployment, cluster: Cluster) -> Rejected | None:
    """Refuse a cluster outside the deployment's regions; one without a region is outside all of them."""
    if not deployment.regions or cluster.region in deployment.regions:
        return None
    detail = explain_beyond(deployment.regions, cluster) or cluster.not_ready or "its region is unknown"
    return Rejected(
        Reason.OUTSIDE_REGIONS, detail=detail, remedy=find_remedy(cluster, "the deployment's regions")
    )


def explain_outside(deployment: Deployment, cluster: Cluster) -> str:
    """Return why a cluster is known to be outside the deployment's regions; empty if it is not known."""
    return explain_beyond(deployment.regions, cluster)


def explain_beyond(allowed: Sequence[str], cluster: Cluster) -> str:
    """Return why a cluster is known to be outside a list of regions; empty if it is not known."""
    if not allowed or cluster.region is None or cluster.region in allowed:
        return ""
    return f"it is {describe_place(cluster.region)}, not in {format_regions(allowed)}"


def find_remedy(cluster: Cluster, allowed: str) -> str:
    """Return what brings a cluster into a list of regions; empty while its region is unknown."""
    if cluster.region is None:
        return ""
    if not cluster.region:
        return f"label the cluster {labels.REGION}=REGION"
    return f'add "{cluster.region}" to {allowed}, if that is permitted'
