"""Quotas: how many objects a team may have in its namespace on the control plane.

The numbers are those of ``examples/quotas``, which has the reason of each.
"""

from modelplane.api.meta import GROUP
from modelplane.kube.resources import Object

_MOST = {
    "modeldeployments": 20,
    "modelreplicas": 60,
    "modelendpoints": 80,
    "modelservices": 20,
    "inferenceautoscalers": 20,
    "modelcaches": 5,
    "modelkeys": 100,
}


def build_quota(namespace: str) -> Object:
    """Return the ResourceQuota of a team's namespace."""
    hard = {f"count/{kind}.{GROUP}": f"{most}" for kind, most in _MOST.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "modelplane", "namespace": namespace},
        "spec": {"hard": {**hard, "count/secrets": "100", "count/configmaps": "100"}},
    }
