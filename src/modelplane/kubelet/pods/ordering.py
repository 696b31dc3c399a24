"""The order in which the containers of a pod start, restart and end. Pure.

Init containers and sidecars start one after the other, then the main containers start together. They end in
the reverse order: main containers together, then the sidecars one after the other (Kubernetes, "Sidecar
Containers").

The first restart of a container that ended is immediate; from the second on the delay is 10 s, doubling to
5 min, and forgotten once an attempt has run for 10 min (Kubernetes, "Pod Lifecycle", restart policy).
"""

from modelplane.kubelet.pods.views import PodView, Role

_FIRST_S = 10.0
_LAST_S = 300.0
_FORGIVEN_AFTER_S = 600.0


def may_start(view: PodView, name: str) -> bool:
    """Return True if the next attempt of a container may start."""
    container = view.find_container(name)
    if view.over or container.finished:
        return False
    if view.initialized:
        return container.role is not Role.INIT
    before = view.containers[: view.containers.index(container)]
    return container.role is not Role.MAIN and all(earlier.passed for earlier in before)


def may_end(view: PodView, name: str) -> bool:
    """Return True if a container may get its stop signal when the pod ends: nothing runs that uses it."""
    container = view.find_container(name)
    after = view.containers[view.containers.index(container) + 1 :]
    return container.role is not Role.SIDECAR or not any(later.runs for later in after)


def find_restart_policy(pod_policy: str, role: Role) -> str:
    """Return the restart policy of a container of a pod."""
    if role is Role.SIDECAR:
        return "Always"
    return "OnFailure" if role is Role.INIT and pod_policy == "Always" else pod_policy


def must_restart(policy: str, exit_code: int) -> bool:
    """Return True if a restart policy asks for another attempt after this exit."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def count_ends_in_row(before: int, ran_s: float) -> int:
    """Return how many ends in a row count, the one of an attempt that ran so long included."""
    return 1 if ran_s >= _FORGIVEN_AFTER_S else before + 1


def compute_delay_s(ends: int) -> float:
    """Return how long after the last of so many ends the next attempt starts."""
    return 0.0 if ends <= 1 else float(min(_FIRST_S * 2.0 ** min(ends - 2, 10), _LAST_S))
