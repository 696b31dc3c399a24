"""How much of an engine an eviction may take at a time: one copy.

Evictions are how nodes are drained. All pods of a gang are in one budget, because to lose one is to
lose its group: while a group comes back, no pod of another may be evicted. A pod that does not serve
may always be: it protects nothing, and would only hold up the drain.
"""

from modelplane.api import labels
from modelplane.compose.backends.workload import Workload
from modelplane.compose.composition import Object


def disruption_budget(workload: Workload) -> Object:
    """Return the PodDisruptionBudget of an engine."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": {labels.WORKLOAD: workload.name}},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
