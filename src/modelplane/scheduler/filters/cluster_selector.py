"""The deployment's clusterSelector: labels that a cluster must carry (Kubernetes' matchLabels)."""

from collections.abc import Mapping

import msgspec

from modelplane.api.rejected import Rejected
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, Deployment


class Difference(msgspec.Struct, frozen=True):
    """A wanted label, as key=value, that the cluster does not have, and the difference in words."""

    wanted: str
    text: str


def find_difference(selector: Mapping[str, str], labels: Mapping[str, str]) -> Difference | None:
    """Return the first wanted label, by key, that does not match; None if all match."""
    for key in sorted(selector):
        if labels.get(key) != selector[key]:
            actual = f'"{labels[key]}"' if key in labels else "not set"
            return Difference(f"{key}={selector[key]}", f'label {key} is {actual}, not "{selector[key]}"')
    return None


def check_cluster_selector(deployment: Deployment, cluster: Cluster) -> Rejected | None:
    """Refuse a cluster that lacks a label of the deployment's clusterSelector."""
    differs = find_difference(deployment.cluster_selector, cluster.labels)
    if not differs:
        return None
    return Rejected(
        Reason.CLUSTER_SELECTOR,
        detail=differs.text,
        remedy=f"remove {differs.wanted} from the clusterSelector, or label the cluster with it",
    )
