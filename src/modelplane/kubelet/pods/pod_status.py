"""Status of a pod (core/v1 ``PodStatus``), from the agent's knowledge of it.

Pure: the same knowledge gives the same status, and a condition that still holds keeps its time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.kube.resources import Object

CONTAINER_CREATING = "ContainerCreating"
BACK_OFF = "CrashLoopBackOff"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not running, and why."""

    reason: str = CONTAINER_CREATING
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """Running since a time."""

    started_at: str


@dataclass(frozen=True, slots=True)
class Terminated:
    """Ended, and how; ``message`` may be empty."""

    exit_code: int
    signal: int
    message: str
    started_at: str
    finished_at: str
    container_id: str
    cause: str = ""
    """A word for why, where one is known."""

    @property
    def reason(self) -> str:
        """The cause, else ``Completed`` or ``Error``, as Kubernetes words it."""
        return self.cause or ("Error" if self.exit_code else "Completed")


@dataclass(frozen=True, slots=True)
class PodView:
    """The agent's knowledge of a pod and its one container."""

    address: str
    """The address that is reported, not the one that is bound."""
    node_address: str
    start_time: str
    state: Waiting | Running | Terminated = Waiting()
    last: Terminated | None = None
    """The exit of the previous attempt."""
    restarts: int = 0
    container_id: str = ""
    image: str = ""
    """The image that runs now, which the pod may have left behind; empty for the pod's own."""
    image_id: str = ""
    """The image, or the program that replaces it."""
    started: bool = False
    ready: bool = False
    finished: bool = False
    """True if the container has ended for good."""

    @property
    def phase(self) -> str:
        """The pod's phase (Kubernetes, "Pod Lifecycle")."""
        if isinstance(self.state, Terminated) and self.finished:
            return "Failed" if self.state.exit_code else "Succeeded"
        if isinstance(self.state, Waiting) and self.last is None:
            return "Pending"
        return "Running"


def status(pod: Mapping[str, Any], view: PodView, now: str) -> Object:
    """Return the part of a pod's status that the agent owns."""
    container = pod["spec"]["containers"][0]
    return {
        "observedGeneration": pod["metadata"].get("generation", 0),
        "phase": view.phase,
        "startTime": view.start_time,
        "hostIP": view.node_address,
        "hostIPs": [{"ip": view.node_address}],
        "podIP": view.address,
        "podIPs": [{"ip": view.address}],
        "conditions": _conditions(pod, view, now),
        "containerStatuses": [_container_status(container, view)],
    }


def told(pod: Mapping[str, Any], container_id: str) -> tuple[bool, bool]:
    """Return whether the API has a container as started and as ready; neither where it has another one."""
    for found in pod.get("status", {}).get("containerStatuses") or ():
        if container_id and found.get("containerID") == container_id:
            return bool(found.get("started")), bool(found.get("ready"))
    return False, False


def changes(pod: Mapping[str, Any], wanted: Object) -> Object:
    """Return the fields of a wanted status that a pod's status does not have yet."""
    known = pod.get("status", {})
    changed = {key: value for key, value in wanted.items() if known.get(key) != value}
    ours = {entry["type"]: _without_null(entry) for entry in wanted["conditions"]}
    before = {entry["type"]: _without_null(entry) for entry in known.get("conditions", ())}
    if all(before.get(kind) == condition for kind, condition in ours.items()):
        changed.pop("conditions", None)
    return changed


def _conditions(pod: Mapping[str, Any], view: PodView, now: str) -> list[Object]:
    unready = _unready(pod, view)
    gates = _unmet_gates(pod)
    ready = unready or (
        ("ReadinessGatesNotReady", f"readiness gates are not met: {', '.join(gates)}") if gates else ("", "")
    )
    waiting_to_start = isinstance(view.state, Waiting) and view.last is None
    values: dict[str, tuple[str, str]] = {
        "PodReadyToStartContainers": ("", ""),
        "Initialized": ("", ""),
        "ContainersReady": unready or ("", ""),
        "Ready": ready,
    }
    if waiting_to_start and isinstance(view.state, Waiting) and view.state.reason != CONTAINER_CREATING:
        values["PodReadyToStartContainers"] = (view.state.reason, view.state.message)
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


def _unready(pod: Mapping[str, Any], view: PodView) -> tuple[str, str] | None:
    if view.finished:
        return (
            ("PodCompleted", "the container has ended")
            if view.phase == "Succeeded"
            else ("PodFailed", _end(view))
        )
    if view.ready:
        return None
    name = pod["spec"]["containers"][0]["name"]
    cause = _end(view) if isinstance(view.state, Terminated) else ""
    if isinstance(view.state, Waiting):
        cause = view.state.message
    return "ContainersNotReady", f"containers with unready status: [{name}]{f': {cause}' if cause else ''}"


def _end(view: PodView) -> str:
    state = view.state
    return f"the container ended with exit code {state.exit_code}" if isinstance(state, Terminated) else ""


def _unmet_gates(pod: Mapping[str, Any]) -> list[str]:
    held = {
        condition["type"]
        for condition in pod.get("status", {}).get("conditions", ())
        if condition["status"] == "True"
    }
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates", ())]
    return sorted(gate for gate in gates if gate not in held)


def _container_status(container: Mapping[str, Any], view: PodView) -> Object:
    written: Object = {
        "name": container["name"],
        "image": view.image or container["image"],
        "imageID": view.image_id,
        "ready": view.ready,
        "started": view.started,
        "restartCount": view.restarts,
        "state": _state(view.state),
        "lastState": _state(view.last) if view.last else {},
    }
    return written | ({"containerID": view.container_id} if view.container_id else {})


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
