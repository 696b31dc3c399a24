"""PodDisruptionBudgets of engines: how many pods a drain of nodes may evict at a time.

All pods of a gang share one budget, because losing one pod loses its group: until a group is back, no pod of
another one can be evicted. A pod that does not serve can always be evicted: it has nothing to protect, and
would only block the drain. So can the only pod of an engine, which therefore has no budget.
"""

from collections.abc import Mapping

from modelplane.api.meta import Object
from modelplane.compose.replica.backends.workload import Workload, is_gang


def build_disruption_budget(workload: Workload) -> Object | None:
    """Return the PodDisruptionBudget of an engine; None if it has one pod, whose eviction none prevents."""
    if workload.engine.copies == 1 and not is_gang(workload.engine):
        return None
    return build_budget({"name": workload.name, "namespace": workload.namespace}, workload.marks.pods)


def build_budget(metadata: Object, pods: Mapping[str, str]) -> Object:
    """Return a PodDisruptionBudget that lets go one pod of those with some labels at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": dict(pods)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
