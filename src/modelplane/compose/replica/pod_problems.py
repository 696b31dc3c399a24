"""Problems of a replica's pods, in one sentence each, and the health of their devices (KEP-4680).

A Deployment reports only the number of available pods. The cause is on the pod: the scheduler's reason, a
waiting container, a failed container. If there is no pod at all, the workload has the cause, or none while
no controller has observed it.

The kubelet copies what a driver reports of each device to the status of the pod that holds it. Only
``Unhealthy`` counts: ``Unknown`` is also what an absent driver reports. The replica stays whatever is
reported, because a report may be temporary. New replicas do not count on the device (``observed_capacity``).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from modelplane.api.conditions.reasons import ModelReplicaCondition as Type, ModelReplicaReason as Reason
from modelplane.api.fields.cluster.devices import MAX_UNHEALTHY, Health, UnhealthyDevice
from modelplane.api.listing import count_noun, in_order
from modelplane.api.meta import Object
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.untyped import get_list, get_map
from modelplane.compose.conditions import READY, Condition, false, list_written, true
from modelplane.compose.readiness import condition_of
from modelplane.compose.workload_kinds import DEPLOYMENT

_ORDINARY = frozenset({"ContainerCreating", "PodInitializing"})
_ORDINARY_CONDITIONS = frozenset({"Available", "UpdateInProgress"})
"""Conditions of Deployments and LeaderWorkerSets that are False while one starts, or while all is well."""

_PROGRESS = "Progressing"
"""A condition that is False when a Deployment has given up, and when a LeaderWorkerSet has nothing to do."""

_BACK_OFF = "CrashLoopBackOff"
_PULLS = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})
_MANY_RESTARTS: Final = 2
_ENGINES = frozenset({"engine", "main"})
"""Names of an engine's container: Modelplane's, and KServe's."""

_ERROR = "Error"

_PROCESS: Final = re.compile(r"^\(\w+ pid=\d+\) +")
"""Prefix of vLLM's log, which differs after each restart."""

_EMPTY: Final = ("For further information visit ",)
"""Beginnings of lines that follow a cause and name none (pydantic)."""


def has_ended(pod: Object) -> bool:
    """Return True if a pod has ended; it stays as an object, as after the shutdown of its node."""
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def trouble(pods: Iterable[Object]) -> str | None:
    """Return the first problem among the pods, by name; None if there is none."""
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        if pod["metadata"].get("deletionTimestamp"):
            continue
        problems = (_unscheduled(pod), *map(_problem, _containers(pod)))
        if problem := next(filter(None, problems), None):
            return f'pod "{pod["metadata"]["name"]}": {problem}'
    return None


def failure(pod: Object) -> tuple[str, str] | None:
    """Return how a container of a pod failed, and when; None if none did.

    What ends while its pod is deleted has not failed.
    """
    fields = ("lastState",) if pod["metadata"].get("deletionTimestamp") else ("state", "lastState")
    for container in _containers(pod):
        for state in (container.get(field, {}) for field in fields):
            if ended := _ended(container["name"], state):
                return ended, str(state["terminated"].get("finishedAt", ""))
    return None


def find_reason(pods: Iterable[Object]) -> Reason | None:
    """Return the reason why containers of pods do not start; None if they may still be starting."""
    for pod in pods:
        if pod["metadata"].get("deletionTimestamp"):
            continue
        for container in _containers(pod):
            waiting = container.get("state", {}).get("waiting", {}).get("reason", "")
            if waiting in _PULLS:
                return Reason.IMAGE_PULL
            # Between two attempts a container runs for a moment.
            is_again = container.get("restartCount", 0) >= _MANY_RESTARTS and not container.get("ready")
            if waiting == _BACK_OFF or (is_again and _ended("", container.get("lastState", {}))):
                return Reason.CRASH_LOOP
    return None


def unmade(workload: Object) -> str | None:
    """Return why a workload has no pods; None if it does not report a cause."""
    failure = condition_of(workload, "ReplicaFailure")
    if failure.get("status") == "True":
        return str(failure.get("message") or failure.get("reason") or "the pods are rejected")
    conditions = (condition_of(workload, READY), *(get_list(workload, "status", "conditions")))
    if told := next(filter(None, (_refusal(workload, condition) for condition in conditions)), None):
        return told
    if workload.get("status"):
        return None
    named = f'{workload["kind"]} "{workload["metadata"]["name"]}"'
    return f"{named} is waiting for its controller: check that the controller is running on the cluster"


def _refusal(workload: Object, condition: Mapping[str, Any]) -> str | None:
    """Return what a condition of a workload reports as false; None if that is ordinary while it starts."""
    seen = condition.get("observedGeneration")
    current = seen is None or seen >= workload["metadata"].get("generation", 0)
    if condition.get("status") != "False" or condition["type"] in _ORDINARY_CONDITIONS or not current:
        return None
    reason, message = condition.get("reason", ""), condition.get("message", "")
    if condition["type"] == _PROGRESS and workload.get("kind") != DEPLOYMENT.kind:
        return None
    return ": ".join(filter(None, (reason, message)))


def _unscheduled(pod: Object) -> str | None:
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return None
    return str(scheduled.get("message") or scheduled.get("reason") or "not scheduled")


def _containers(pod: Object) -> tuple[Object, ...]:
    status = pod.get("status", {})
    return (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ()))


def _problem(container: Object) -> str | None:
    waiting = get_map(container, "state", "waiting")
    reason = waiting.get("reason", "")
    name = container["name"]
    if reason == _BACK_OFF and (ended := _ended(name, container.get("lastState", {}))):
        return f"{reason}: {ended}"
    if reason and reason not in _ORDINARY:
        told = f"{reason}: {waiting['message']}" if waiting.get("message") else str(reason)
        return told if name in _ENGINES else f'container "{name}": {told}'
    if ended := _ended(name, container.get("state", {})):
        return ended
    # Without this, the cause would be lost whenever an engine starts once more.
    again = "running" in container.get("state", {}) and not container.get("ready")
    before = _ended(name, container.get("lastState", {})) if again else None
    return f"started again after {before}" if before else None


def _ended(name: str, state: Object) -> str | None:
    """Return how a container failed, with the cause if its log has one in the last lines."""
    terminated = state.get("terminated", {})
    if terminated.get("exitCode", 0) == 0:
        return None
    said = (_PROCESS.sub("", line).strip() for line in reversed(terminated.get("message", "").splitlines()))
    cause = next((line for line in said if line and not line.startswith(_EMPTY)), None)
    what = "the engine" if name in _ENGINES else f'container "{name}"'
    why = f" ({terminated['reason']})" if terminated.get("reason", _ERROR) != _ERROR else ""
    return f"{what} exited with status {terminated['exitCode']}{why}" + (f": {cause}" if cause else "")


_SHOWN: Final = 4
_LONGEST_NAME: Final = 253
_LONGEST_ID: Final = 512
_REMEDY: Final = "The replica is kept. Repair the {devices}, or taint {them} and delete the {pods}"


def device_status(pods: Iterable[Object]) -> dict[str, Any]:
    """Return the part of a replica's status that lists unhealthy devices; empty if there are none."""
    found = [affected for affected, health in _list_device_health(pods) if health is Health.UNHEALTHY]
    return (
        {"unhealthyDevices": [msgspec.to_builtins(device) for device in found[:MAX_UNHEALTHY]]}
        if found
        else {}
    )


def keep_device_status(replica: ModelReplica) -> dict[str, Any]:
    """Return the same part as it was last written, while pods are not looked at."""
    known = replica.status.unhealthy_devices
    return {"unhealthyDevices": [msgspec.to_builtins(device) for device in known]} if known else {}


def keep_device_condition(replica: ModelReplica) -> tuple[Condition, ...]:
    """Return the condition about devices as it was last written; none if there was none."""
    return list_written(replica.status, (Type.DEVICES_HEALTHY,))


def device_conditions(pods: Iterable[Object]) -> tuple[Condition, ...]:
    """Return the condition about devices; none if no driver reports their health."""
    reported = list(_list_device_health(pods))
    if not reported:
        return ()
    unhealthy = [affected for affected, health in reported if health is Health.UNHEALTHY]
    if not unhealthy:
        return (true(Type.DEVICES_HEALTHY, Reason.NONE_UNHEALTHY, "no driver reports an unhealthy device"),)
    return (false(Type.DEVICES_HEALTHY, Reason.DEVICE_UNHEALTHY, _message(unhealthy)),)


def _message(unhealthy: Sequence[UnhealthyDevice]) -> str:
    count, pods = len(unhealthy), len({device.pod for device in unhealthy})
    named = in_order([f'"{device.device}" of pod "{device.pod}"' for device in unhealthy], _SHOWN)
    devices, them = ("device", "it") if count == 1 else ("devices", "them")
    remedy = _REMEDY.format(devices=devices, them=them, pods="pod" if pods == 1 else "pods")
    return f"{count_noun(count, 'device')} reported as unhealthy: {named}. {remedy}"


def _list_device_health(pods: Iterable[Object]) -> Iterator[tuple[UnhealthyDevice, Health]]:
    """Yield each device of the pods that run with its health, by pod and device, once."""
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        # The status of a pod that ended keeps the last report, and a pod that leaves is replaced.
        if pod["metadata"].get("deletionTimestamp") or has_ended(pod):
            continue
        by_device: dict[str, Health] = {}
        for device, health in _of_pod(pod):
            if by_device.get(device) is not Health.UNHEALTHY:
                by_device[device] = health
        name = str(pod["metadata"]["name"])[:_LONGEST_NAME]
        yield from (
            (UnhealthyDevice(pod=name, device=device), found) for device, found in sorted(by_device.items())
        )


def _of_pod(pod: Object) -> Iterator[tuple[str, Health]]:
    """Yield what the containers of a pod report; the same device may be reported by several."""
    status = get_map(pod.get("status"))
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in _maps(status.get(field)):
            for claim in _maps(container.get("allocatedResourcesStatus")):
                for item in _maps(claim.get("resources")):
                    device, health = item.get("resourceID"), item.get("health")
                    if isinstance(device, str) and device and isinstance(health, str):
                        known = Health(health) if health in set(Health) else Health.UNKNOWN
                        yield device[:_LONGEST_ID], known


def _maps(value: object) -> list[Mapping[str, Any]]:
    return [item for item in get_list(value) if isinstance(item, Mapping)]
