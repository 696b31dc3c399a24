"""The deployment's clusterSelector: labels that a cluster must carry (Kubernetes' matchLabels)."""

from collections.abc import Mapping

import msgspec

from modelplane.scheduler.types import Cluster, Deployment
from modelplane.scheduler.verdict import FIT, Reason, Rejected, Verdict


class Difference(msgspec.Struct, frozen=True):
    """A wanted label, as key=value, that the cluster does not have, and the difference in words."""

    wanted: str
    text: str


def differing(wanted: Mapping[str, str], labels: Mapping[str, str]) -> Difference | None:
    """Return the first wanted label, by key, that does not match; None if all match."""
    for key in sorted(wanted):
        if labels.get(key) != wanted[key]:
            found = f'"{labels[key]}"' if key in labels else "not set"
            return Difference(f"{key}={wanted[key]}", f'label {key} is {found}, not "{wanted[key]}"')
    return None


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
