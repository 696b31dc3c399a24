"""The order in which the containers of a pod start and end (Kubernetes, "Sidecar Containers"). Pure.

Init containers and sidecars start one after the other, then the main containers start together. They end in
the reverse order: main containers together, then the sidecars one after the other.
"""

from modelplane.kubelet.pods.views import PodView, Role


def may_start(view: PodView, name: str) -> bool:
    """Return True if the next attempt of a container may start."""
    container = view.container(name)
    if view.over or container.finished:
        return False
    if view.initialized:
        return container.role is not Role.INIT
    before = view.containers[: view.containers.index(container)]
    return container.role is not Role.MAIN and all(each.passed for each in before)


def may_end(view: PodView, name: str) -> bool:
    """Return True if a container may get its stop signal when the pod ends: nothing runs that uses it."""
    container = view.container(name)
    after = view.containers[view.containers.index(container) + 1 :]
    return container.role is not Role.SIDECAR or not any(each.runs for each in after)
