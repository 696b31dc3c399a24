"""Problems of a replica's pods, in one sentence.

A Deployment reports only the number of available pods. The cause is on the pod: the scheduler's reason, a
waiting container, a failed container. If there is no pod at all, the workload has the cause, or none while
no controller has observed it.
"""

from collections.abc import Iterable

from modelplane.api.meta import Object
from modelplane.compose.readiness import condition_of

_ORDINARY = frozenset({"ContainerCreating", "PodInitializing"})
_BACK_OFF = "CrashLoopBackOff"
_ENGINE = "engine"
_ERROR = "Error"


def trouble(pods: Iterable[Object]) -> str:
    """Return the first problem among the pods, by name; empty if there is none."""
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        if pod["metadata"].get("deletionTimestamp"):
            continue
        problem = _unscheduled(pod) or _unstarted(pod)
        if problem:
            return f'pod "{pod["metadata"]["name"]}": {problem}'
    return ""


def unmade(workload: Object) -> str:
    """Return why a workload has no pods; empty if it does not report a cause."""
    failure = condition_of(workload, "ReplicaFailure")
    if failure.get("status") == "True":
        return str(failure.get("message") or failure.get("reason") or "its pods are rejected")
    if workload.get("status"):
        return ""
    named = f'{workload["kind"]} "{workload["metadata"]["name"]}"'
    return f"{named} waits for its controller: check that it runs on the cluster"


def _unscheduled(pod: Object) -> str:
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return ""
    return str(scheduled.get("message") or scheduled.get("reason") or "not scheduled")


def _unstarted(pod: Object) -> str:
    status = pod.get("status", {})
    for container in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())):
        if problem := _problem(container):
            return problem
    return ""


def _problem(container: Object) -> str:
    waiting = container.get("state", {}).get("waiting", {})
    reason = waiting.get("reason", "")
    name = container["name"]
    if reason == _BACK_OFF and (ended := _ended(name, container.get("lastState", {}))):
        return f"{reason}: {ended}"
    if reason and reason not in _ORDINARY:
        told = f"{reason}: {waiting['message']}" if waiting.get("message") else str(reason)
        return told if name == _ENGINE else f'container "{name}": {told}'
    return _ended(name, container.get("state", {}))


def _ended(name: str, state: Object) -> str:
    """Return how a container failed, with the last line of its log if the pod has it."""
    terminated = state.get("terminated", {})
    if terminated.get("exitCode", 0) == 0:
        return ""
    lines = terminated.get("message", "").splitlines()
    what = "the engine" if name == _ENGINE else f'container "{name}"'
    why = f" ({terminated['reason']})" if terminated.get("reason", _ERROR) != _ERROR else ""
    return f"{what} exited with status {terminated['exitCode']}{why}" + (f": {lines[-1]}" if lines else "")
