"""Status of a pod (core/v1 ``PodStatus``), from the agent's knowledge of it.

Pure: the same knowledge gives the same status, and a condition that still holds keeps its time.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from modelplane.kube.resources import Object
from modelplane.kubelet.pods import views
from modelplane.kubelet.pods.views import (
    CONTAINER_CREATING,
    POD_INITIALIZING,
    ContainerView,
    PodView,
    Role,
    Running,
    Terminated,
    Waiting,
)

_USUAL = frozenset({CONTAINER_CREATING, POD_INITIALIZING})


def build_status(pod: Mapping[str, Any], view: PodView, now: str) -> Object:
    """Return the part of a pod's status that the agent owns."""
    specs = {container["name"]: container for container in views.list_containers(pod)}
    written = [
        (container, _container_status(specs[container.name], container)) for container in view.containers
    ]
    inits = [reported for about, reported in written if about.role is not Role.MAIN]
    return {
        "observedGeneration": pod["metadata"].get("generation", 0),
        "phase": view.phase,
        "startTime": view.start_time,
        "hostIP": view.node_address,
        "hostIPs": [{"ip": view.node_address}],
        "podIP": view.address,
        "podIPs": [{"ip": view.address}],
        "conditions": _conditions(pod, view, now),
        **({"initContainerStatuses": inits} if inits else {}),
        "containerStatuses": [reported for about, reported in written if about.role is Role.MAIN],
    }


def read_flags(pod: Mapping[str, Any], container_id: str) -> tuple[bool, bool]:
    """Return whether the API has a container as started and as ready; neither where it has another one."""
    status = pod.get("status", {})
    for container_status in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        if container_id and container_status.get("containerID") == container_id:
            return bool(container_status.get("started")), bool(container_status.get("ready"))
    return False, False


def find_changes(pod: Mapping[str, Any], desired: Object) -> Object:
    """Return the fields of a wanted status that a pod's status does not have yet."""
    reported = pod.get("status", {})
    changed = {key: value for key, value in desired.items() if reported.get(key) != value}
    ours = {entry["type"]: _without_null(entry) for entry in desired["conditions"]}
    before = {entry["type"]: _without_null(entry) for entry in reported.get("conditions", ())}
    if all(before.get(kind) == condition for kind, condition in ours.items()):
        changed.pop("conditions", None)
    return changed


def _conditions(pod: Mapping[str, Any], view: PodView, now: str) -> list[Object]:
    unready = _unready(view)
    held = {
        condition["type"]
        for condition in pod.get("status", {}).get("conditions", ())
        if condition["status"] == "True"
    }
    gates = sorted({gate["conditionType"] for gate in pod["spec"].get("readinessGates", ())} - held)
    ready = unready or (
        ("ReadinessGatesNotReady", f"readiness gates are not met: {', '.join(gates)}") if gates else ("", "")
    )
    values: dict[str, tuple[str, str]] = {
        "PodReadyToStartContainers": _obstacle(view),
        "Initialized": _incomplete(view),
        "ContainersReady": unready or ("", ""),
        "Ready": ready,
    }
    before = {condition["type"]: condition for condition in pod.get("status", {}).get("conditions", ())}
    generation = pod["metadata"].get("generation", 0)
    return [
        _condition(kind, reason, message, before.get(kind, {}), generation, now)
        for kind, (reason, message) in values.items()
    ]


def _condition(
    kind: str, reason: str, message: str, before: Mapping[str, Any], generation: int, now: str
) -> Object:
    value = "False" if reason else "True"
    changed = before.get("lastTransitionTime") if before.get("status") == value else now
    return {
        "type": kind,
        "status": value,
        "observedGeneration": generation,
        # Null, not absent: the patch merges each condition into the one before.
        "reason": reason or None,
        "message": message or None,
        "lastProbeTime": None,
        "lastTransitionTime": changed or now,
    }


def _obstacle(view: PodView) -> tuple[str, str]:
    """Return what keeps the first container of a pod from starting."""
    states = [container.state for container in view.containers if container.last is None]
    waiting = [state for state in states if isinstance(state, Waiting)]
    if len(waiting) < len(view.containers):
        return "", ""
    return next(((state.reason, state.message) for state in waiting if state.reason not in _USUAL), ("", ""))


def _incomplete(view: PodView) -> tuple[str, str]:
    if view.initialized:
        return "", ""
    names = _names(
        container for container in view.containers if container.role is not Role.MAIN and not container.passed
    )
    return "ContainersNotInitialized", f"containers with incomplete status: {names}"


def _unready(view: PodView) -> tuple[str, str] | None:
    if view.phase == "Succeeded":
        return "PodCompleted", "the container has ended"
    if view.phase == "Failed":
        failed = next(
            container
            for container in view.containers
            if container.failed and container.role is not Role.SIDECAR
        )
        return "PodFailed", _find_cause(failed) or ""
    unready = [
        container for container in view.containers if container.role is not Role.INIT and not container.ready
    ]
    if not unready:
        return None
    causes = (_find_cause(container) for container in view.containers if not container.ready)
    cause = next(filter(None, causes), None)
    message = f"containers with unready status: {_names(unready)}{f': {cause}' if cause else ''}"
    return "ContainersNotReady", message


def _find_cause(view: ContainerView) -> str | None:
    if isinstance(view.state, Waiting):
        return view.state.message
    if isinstance(view.state, Terminated):
        return f'container "{view.name}" ended with exit code {view.state.exit_code}'
    return None


def _names(containers: Iterable[ContainerView]) -> str:
    return f"[{' '.join(container.name for container in containers)}]"


def _container_status(container: Mapping[str, Any], view: ContainerView) -> Object:
    return {
        "name": container["name"],
        "image": view.image or container["image"],
        "imageID": view.image_id,
        "ready": view.ready,
        "started": view.started,
        "restartCount": view.restarts,
        "state": _state(view.state),
        "lastState": _state(view.last) if view.last else {},
    } | ({"containerID": view.container_id} if view.container_id else {})


def _state(state: Waiting | Running | Terminated) -> Object:
    if isinstance(state, Running):
        return {"running": {"startedAt": state.started_at}}
    if isinstance(state, Waiting):
        return {"waiting": _without_empty({"reason": state.reason, "message": state.message})}
    terminated = {
        "exitCode": state.exit_code,
        "signal": state.signal,
        "reason": state.reason,
        "message": state.message,
        "startedAt": state.started_at,
        "finishedAt": state.finished_at,
        "containerID": state.container_id,
    }
    return {"terminated": {"exitCode": state.exit_code} | _without_empty(terminated)}


def _without_null(fields: Mapping[str, Any]) -> Object:
    return {key: value for key, value in fields.items() if value is not None}


def _without_empty(fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value not in {"", 0}}
