"""Health of the devices of a replica's pods (KEP-4680).

The kubelet copies what a driver reports of each device to the status of the pod that holds it. Only
``Unhealthy`` counts: ``Unknown`` is also what an absent driver reports. The replica stays whatever is
reported, because a report may be temporary. New replicas do not count on the device (``observed_capacity``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from modelplane.api.conditions.reasons import ModelReplicaCondition as Type
from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.cluster.devices import MAX_UNHEALTHY, Health, UnhealthyDevice
from modelplane.api.listing import in_order, number_of
from modelplane.api.meta import Object
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.untyped import get_list, get_map
from modelplane.compose.conditions import Condition, false, last_said, true
from modelplane.compose.replica.pod_problems import has_ended

_SHOWN: Final = 4
_LONGEST_NAME: Final = 253
_LONGEST_ID: Final = 512
_REMEDY: Final = "The replica stays. Repair the {devices}, or taint {them} and delete the {pods}"


def status(pods: Iterable[Object]) -> dict[str, Any]:
    """Return the part of a replica's status that lists unhealthy devices; empty if there are none."""
    found = [each for each, health in _reported(pods) if health is Health.UNHEALTHY]
    return (
        {"unhealthyDevices": [msgspec.to_builtins(device) for device in found[:MAX_UNHEALTHY]]}
        if found
        else {}
    )


def kept(replica: ModelReplica) -> dict[str, Any]:
    """Return the same part as it was last written, while pods are not looked at."""
    known = replica.status.unhealthy_devices
    return {"unhealthyDevices": [msgspec.to_builtins(device) for device in known]} if known else {}


def known(replica: ModelReplica) -> tuple[Condition, ...]:
    """Return the condition about devices as it was last written; none if there was none."""
    return last_said(replica.status, (Type.DEVICES_HEALTHY,))


def conditions(pods: Iterable[Object]) -> tuple[Condition, ...]:
    """Return the condition about devices; none if no driver reports their health."""
    reported = list(_reported(pods))
    if not reported:
        return ()
    unhealthy = [each for each, health in reported if health is Health.UNHEALTHY]
    if not unhealthy:
        message = "no driver reports an unhealthy device"
        return (true(Type.DEVICES_HEALTHY, Reason.NONE_UNHEALTHY, message),)
    return (false(Type.DEVICES_HEALTHY, Reason.DEVICE_UNHEALTHY, _message(unhealthy)),)


def _message(unhealthy: Sequence[UnhealthyDevice]) -> str:
    count, pods = len(unhealthy), len({device.pod for device in unhealthy})
    named = in_order([f'"{device.device}" of pod "{device.pod}"' for device in unhealthy], _SHOWN)
    devices, them = ("device", "it") if count == 1 else ("devices", "them")
    remedy = _REMEDY.format(devices=devices, them=them, pods="pod" if pods == 1 else "pods")
    return f"{number_of(count, 'device')} reported as unhealthy: {named}. {remedy}"


def _reported(pods: Iterable[Object]) -> Iterator[tuple[UnhealthyDevice, Health]]:
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
