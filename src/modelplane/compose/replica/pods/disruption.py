"""Disruption budget of an engine: evictions take one copy at a time.

Nodes are drained by eviction. All pods of a gang share one budget, because losing one pod loses its group:
until a group is back, no pod of another one can be evicted. A pod that does not serve can always be evicted:
it has nothing to protect, and would only block the drain. So can the only pod of an engine, which therefore
has no budget.
"""

from modelplane.api.meta import Object
from modelplane.compose.replica.backends.gang import is_gang
from modelplane.compose.replica.backends.workload import Workload


def disruption_budget(workload: Workload) -> Object | None:
    """Return the PodDisruptionBudget of an engine; None if it has one pod, whose eviction none prevents."""
    if workload.engine.copies == 1 and not is_gang(workload.engine):
        return None
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
