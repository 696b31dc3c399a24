"""Availability of a Deployment in its last written form, or the cause that prevents it.

One sentence, of the pod with the most specific cause: an image that cannot be pulled explains more than two
missing replicas.
"""

from collections.abc import Iterable, Iterator

from modelplane.compose.readiness import condition_of, is_true
from modelplane.kube.resources import Object


def problem(deployment: Object, pods: Iterable[Object]) -> str:
    """Return why a Deployment is not available; empty if it is."""
    wanted = int(deployment["spec"].get("replicas", 1))
    status = deployment.get("status", {})
    seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    new, serving = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if seen and min(new, serving) >= wanted and status.get("replicas", 0) == new:
        return ""
    counted = f"{min(new, serving) if seen else 0} of {wanted} replicas are available"
    return ": ".join((counted, *_cause(deployment, pods)))


def _cause(deployment: Object, pods: Iterable[Object]) -> tuple[str, ...]:
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        for cause in _of_pod(pod):
            return (f'pod "{pod["metadata"]["name"]}"', cause)
    refused = condition_of(deployment, "ReplicaFailure")
    return (str(refused["message"]),) if refused.get("status") == "True" else ()


def _of_pod(pod: Object) -> Iterator[str]:
    """Yield the reasons why a pod is not ready, the most specific first."""
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        yield str(scheduled.get("message", "it is not scheduled"))
    containers = pod.get("status", {}).get("containerStatuses") or ()
    for container in containers:
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") not in (None, *_HARMLESS):
            yield _sentence(container, waiting)
    for container in containers:
        if ended := container.get("state", {}).get("terminated"):
            yield _sentence(container, {"reason": ended.get("reason", "ended"), **ended})
    if containers and not is_true(pod, "Ready"):
        for container in containers:
            if "running" in container.get("state", {}) and not container.get("ready"):
                yield f'container "{container["name"]}" runs and is not ready: see its log'


_HARMLESS = ("ContainerCreating", "PodInitializing")


def _sentence(container: Object, state: Object) -> str:
    parts = (f'container "{container["name"]}"', state["reason"], state.get("message", ""))
    return ": ".join(part for part in parts if part)
