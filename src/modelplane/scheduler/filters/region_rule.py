"""The deployment's region rule: the regions in which it may be served."""

from collections.abc import Sequence

from modelplane.api import labels
from modelplane.api.fields.requests.regions import describe_place, format_regions
from modelplane.api.rejected import Rejected
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, Deployment


def check_regions(deployment: Deployment, cluster: Cluster) -> Rejected | None:
    """Refuse a cluster outside the deployment's regions; one without a region is outside all of them."""
    if not deployment.regions or cluster.region in deployment.regions:
        return None
    unknown = cluster.not_ready or "the cluster's region is unknown"
    return check_known_region(deployment, cluster) or Rejected(Reason.OUTSIDE_REGIONS, detail=unknown)


def check_known_region(deployment: Deployment, cluster: Cluster) -> Rejected | None:
    """Return why a cluster is outside the deployment's regions; None if it is not, or if that is unknown."""
    return reject_region(deployment.regions, cluster, Reason.OUTSIDE_REGIONS, "the deployment's regions")


def reject_region(
    allowed: Sequence[str], cluster: Cluster, reason: Reason, listed_in: str
) -> Rejected | None:
    """Return why a cluster is outside a list of regions; None if it is not, or if that is unknown."""
    region = cluster.region
    if not allowed or region is None or region in allowed:
        return None
    remedy = f'add "{region}" to {listed_in}, if permitted'
    return Rejected(
        reason,
        detail=f"the cluster is {describe_place(region)}, not in {format_regions(allowed)}",
        remedy=remedy if region else f"label the cluster {labels.REGION}=REGION",
    )
