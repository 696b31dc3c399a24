"""What keeps the pods of a replica from serving, in one sentence.

A Deployment says only how many pods are available. Why one is not is written on
the pod: the scheduler's reason, a container that waits, a container that died.
"""

from collections.abc import Iterable

from modelplane.compose.composition import Object
from modelplane.compose.readiness import condition_of

_ORDINARY = frozenset({"ContainerCreating", "PodInitializing"})
_BACK_OFF = "CrashLoopBackOff"


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
        if reason == _BACK_OFF and (ended := _ended(container.get("lastState", {}))):
            return f"{reason}: {ended}"
        if reason and reason not in _ORDINARY:
            return f"{reason}: {waiting['message']}" if waiting.get("message") else str(reason)
        if ended := _ended(container.get("state", {})):
            return ended
    return ""


def _ended(state: Object) -> str:
    """Return how an engine failed, with the last line of its log where the pod has it."""
    terminated = state.get("terminated", {})
    if terminated.get("exitCode", 0) == 0:
        return ""
    lines = terminated.get("message", "").splitlines()
    return f"the engine exited with status {terminated['exitCode']}" + (f": {lines[-1]}" if lines else "")
