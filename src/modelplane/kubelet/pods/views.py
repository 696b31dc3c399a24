"""The containers of a pod, and the agent's knowledge of them; a pod narrowed to one container. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from modelplane.kube.resources import Object

CONTAINER_CREATING = "ContainerCreating"
POD_INITIALIZING = "PodInitializing"
BACK_OFF = "CrashLoopBackOff"


class Role(Enum):
    """The part that a container has in its pod (Kubernetes, "Init Containers", "Sidecar Containers")."""

    INIT = "runs to completion before the next one starts"
    SIDECAR = "an init container with restartPolicy Always: runs beside the main containers"
    MAIN = "one of spec.containers"


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
class ContainerView:
    """The agent's knowledge of one container."""

    name: str
    role: Role = Role.MAIN
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
    def runs(self) -> bool:
        """True if an attempt runs."""
        return isinstance(self.state, Running)

    @property
    def failed(self) -> bool:
        """True if it has ended for good, and badly."""
        return self.finished and isinstance(self.state, Terminated) and self.state.exit_code != 0

    @property
    def passed(self) -> bool:
        """True if the init container after it may start: it has succeeded, or as a sidecar has started."""
        return self.runs and self.started if self.role is Role.SIDECAR else self.finished and not self.failed


@dataclass(frozen=True, slots=True)
class PodView:
    """The agent's knowledge of a pod."""

    address: str
    """The address that is reported, not the one that is bound."""
    node_address: str
    start_time: str
    containers: tuple[ContainerView, ...]
    """Init containers and sidecars in their order, then the main containers."""
    was_initialized: bool = False
    """True if it was initialized once."""

    def find_container(self, name: str) -> ContainerView:
        """Return the view of one container."""
        return next(container for container in self.containers if container.name == name)

    def replace_container(self, changed: ContainerView) -> "PodView":
        """Return the view with one container's changed."""
        containers = tuple(
            changed if container.name == changed.name else container for container in self.containers
        )
        return replace(self, containers=containers, was_initialized=self.initialized)

    @property
    def mains(self) -> tuple[ContainerView, ...]:
        """The main containers."""
        return tuple(container for container in self.containers if container.role is Role.MAIN)

    @property
    def initialized(self) -> bool:
        """True once every init container has passed: the main containers may start."""
        return (
            self.was_initialized
            or all(container.passed for container in self.containers if container.role is not Role.MAIN)
            or any(main.runs for main in self.mains)
        )

    @property
    def over(self) -> bool:
        """True if nothing of the pod starts any more: an init container failed, or all main ones ended."""
        init_failed = any(container.failed for container in self.containers if container.role is Role.INIT)
        return init_failed or all(main.finished for main in self.mains)

    @property
    def phase(self) -> str:
        """The pod's phase (Kubernetes, "Pod Lifecycle"); the exit of a sidecar does not count."""
        if self.over and not any(container.runs for container in self.containers):
            failed = any(
                container.failed for container in self.containers if container.role is not Role.SIDECAR
            )
            return "Failed" if failed else "Succeeded"
        waits = any(isinstance(main.state, Waiting) and main.last is None for main in self.mains)
        return "Running" if self.initialized and not waits else "Pending"


def build_views(pod: Mapping[str, Any]) -> tuple[ContainerView, ...]:
    """Return the views of a pod's containers before the first attempt."""
    inits = pod["spec"].get("initContainers") or ()
    waiting = Waiting(POD_INITIALIZING if inits else CONTAINER_CREATING)
    return (
        *(
            ContainerView(
                container["name"],
                Role.SIDECAR if container.get("restartPolicy") == "Always" else Role.INIT,
                waiting,
            )
            for container in inits
        ),
        *(ContainerView(container["name"], Role.MAIN, waiting) for container in pod["spec"]["containers"]),
    )


def list_containers(pod: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the containers of a pod: init containers and sidecars in their order, then the main ones."""
    return (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])


def select_container(pod: Object, name: str) -> Object:
    """Return a pod as if one of its containers were the only one.

    A volume in memory that several containers mount is one on disk then: memory that is mounted for one
    process is not seen by another.
    """
    every = list_containers(pod)
    if len(every) == 1:
        return pod
    spec = {key: value for key, value in pod["spec"].items() if key != "initContainers"}
    mounted = [{mount["name"] for mount in container.get("volumeMounts", ())} for container in every]
    shared = {name for name in set().union(*mounted) if sum(name in names for names in mounted) > 1}
    volumes = [_on_disk(volume) if volume["name"] in shared else volume for volume in spec.get("volumes", ())]
    chosen = [container for container in every if container["name"] == name]
    return {**pod, "spec": {**spec, "containers": chosen, "volumes": volumes}}


def _on_disk(volume: Mapping[str, Any]) -> Mapping[str, Any]:
    if volume.get("emptyDir", {}).get("medium") != "Memory":
        return volume
    return {**volume, "emptyDir": {**volume["emptyDir"], "medium": ""}}
