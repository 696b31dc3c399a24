"""Disruption budget of an engine: evictions take one copy at a time.

Nodes are drained by eviction. All pods of a gang share one budget, because losing one pod loses its group:
until a group is back, no pod of another one can be evicted. A pod that does not serve can always be evicted:
it has nothing to protect, and would only block the drain.
"""

from modelplane.api.meta import Object
from modelplane.compose.backends.workload import Workload


def disruption_budget(workload: Workload) -> Object:
    """Return the PodDisruptionBudget of an engine."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": dict(workload.marks.pods)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
