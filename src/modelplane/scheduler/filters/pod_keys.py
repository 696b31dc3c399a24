"""Filter by the labels, annotations and variables of a deployment's pods."""

from functools import lru_cache

from modelplane.api.pod_keys import KeyRules
from modelplane.scheduler.types import Cluster, Deployment
from modelplane.scheduler.verdict import FIT, Reason, Rejected, Verdict


def pod_keys(deployment: Deployment, cluster: Cluster) -> Verdict:
    """Refuse a cluster that does not accept a label, annotation or variable of the pods."""
    parts = refused_parts(deployment, cluster)
    if not parts:
        return FIT
    remedy = "remove what is refused"
    if _refused(deployment.pod_keys, cluster.pod_keys):
        remedy += ", or let the platform team add it to spec.podKeys.accept of the InferenceCluster"
    return Rejected(Reason.PODS_NOT_ACCEPTED, detail=parts, remedy=remedy)


def refused_parts(deployment: Deployment, cluster: Cluster) -> str:
    """Return every label, annotation and variable that a cluster refuses; empty if it accepts all."""
    if not (deployment.pod_keys or deployment.refused_variables):
        return ""
    keys = _refused(deployment.pod_keys, cluster.pod_keys)
    return ", ".join((*keys, *(f'variable "{name}"' for name in deployment.refused_variables)))


@lru_cache(maxsize=1024)
def _refused(keys: tuple[tuple[str, str], ...], rules: KeyRules) -> tuple[str, ...]:
    """Return the refused keys. Most clusters have the same rules."""
    return tuple(f'{what} "{key}"' for what, key in keys if not rules.accepts(key))
