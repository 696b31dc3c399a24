"""What keeps the pods of a replica from serving, in one sentence.

A Deployment says only how many pods are available. Why one is not is written on
the pod: the scheduler's reason, a container that waits, a container that died.
"""

from collections.abc import Iterable

from modelplane.compose.composition import Object
from modelplane.compose.readiness import condition_of

_ORDINARY = frozenset({"ContainerCreating", "PodInitializing"})


def trouble(pods: Iterable[Object]) -> str:
    """Return the first problem among the pods, by name; empty where there is none to tell."""
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        if pod["metadata"].get("deletionTimestamp"):
            continue
        problem = _unscheduled(pod) or _unstarted(pod)
        if problem:
            return f'pod "{pod["metadata"]["name"]}": {problem}'
    return ""


def _unscheduled(pod: Object) -> str:
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return ""
    return str(scheduled.get("message") or scheduled.get("reason") or "not scheduled")


def _unstarted(pod: Object) -> str:
    for container in pod.get("status", {}).get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting", {})
        reason = waiting.get("reason", "")
        if reason and reason not in _ORDINARY:
            return f"{reason}: {waiting['message']}" if waiting.get("message") else str(reason)
        ended = container.get("state", {}).get("terminated", {})
        if ended and ended.get("exitCode") != 0:
            return f"the engine exited with status {ended['exitCode']}"
    return ""
