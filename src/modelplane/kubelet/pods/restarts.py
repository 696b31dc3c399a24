"""Restarts of ended containers (Kubernetes, "Pod Lifecycle", restart policy).

The first restart is immediate; from the second on the delay is 10 s, doubling to 5 min, and
forgotten once an attempt has run for 10 min.
"""

from modelplane.kubelet.pods.views import Role

_FIRST_S = 10.0
_LAST_S = 300.0
_FORGIVEN_AFTER_S = 600.0


def policy(pod_policy: str, role: Role) -> str:
    """Return the restart policy of a container of a pod."""
    if role is Role.SIDECAR:
        return "Always"
    return "OnFailure" if role is Role.INIT and pod_policy == "Always" else pod_policy


def restarts(policy: str, exit_code: int) -> bool:
    """Return True if a restart policy asks for another attempt after this exit."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def ends_in_row(before: int, ran_s: float) -> int:
    """Return how many ends in a row count, the one of an attempt that ran so long included."""
    return 1 if ran_s >= _FORGIVEN_AFTER_S else before + 1


def delay_s(ends: int) -> float:
    """Return how long after the last of so many ends the next attempt starts."""
    return 0.0 if ends <= 1 else float(min(_FIRST_S * 2.0 ** min(ends - 2, 10), _LAST_S))
