"""Devices that kube-scheduler allocated to a pod (``resource.k8s.io/v1`` ResourceClaim).

The scheduler allocates and reserves before it binds; here it is only read, and a pod whose claim
is not its own does not start.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason
from modelplane.kubelet.devices.local_device import DiscoveredDevice


async def find_devices(
    client: Client, pod: Mapping[str, Any], machine: Iterable[DiscoveredDevice]
) -> tuple[DiscoveredDevice, ...]:
    """Return the devices of this machine that the claims of a narrowed pod's container hold.

    Raises ``CannotStart`` for any claim of the pod: no container starts before all are ready.
    """
    namespace = pod["metadata"]["namespace"]
    container = pod["spec"]["containers"][0]
    named = {entry["name"] for entry in container.get("resources", {}).get("claims", ())}
    matching: list[DiscoveredDevice] = []
    for entry in pod["spec"].get("resourceClaims", ()):
        name = find_claim_name(entry, pod)
        if name is None:
            continue
        if isinstance(name, Rejected):
            raise CannotStart(name)
        claim = await client.get(resources.RESOURCE_CLAIMS, name, namespace)
        devices = list_allocated(name, claim, pod, machine)
        if isinstance(devices, Rejected):
            raise CannotStart(devices)
        matching.extend(devices if entry["name"] in named else ())
    return tuple(matching)


def find_claim_name(entry: Mapping[str, Any], pod: Mapping[str, Any]) -> str | Rejected | None:
    """Return the name of a pod's claim; None if its template needs none, ``Rejected`` until it is made."""
    if "resourceClaimName" in entry:
        return str(entry["resourceClaimName"])
    for status in pod.get("status", {}).get("resourceClaimStatuses", ()):
        if status["name"] == entry["name"]:
            return str(status.get("resourceClaimName") or "") or None
    return _refuse(f'claim "{entry["name"]}"', "has not been made from its template yet")


def list_allocated(
    name: str, claim: Object | None, pod: Mapping[str, Any], machine: Iterable[DiscoveredDevice]
) -> tuple[DiscoveredDevice, ...] | Rejected:
    """Return the devices of one claim; ``Rejected`` unless all of them are the pod's."""
    what = f'ResourceClaim "{name}"'
    if claim is None:
        return _refuse(what, "does not exist", "create it, or delete the pod")
    status = claim.get("status", {})
    if "allocation" not in status:
        return _refuse(what, "is not allocated", "leave the binding to kube-scheduler")
    if not any(user.get("uid") == pod["metadata"]["uid"] for user in status.get("reservedFor", ())):
        return _refuse(what, "is not reserved for this pod: another one uses it")
    by_name = {(device.driver, device.name): device for device in machine}
    results = status["allocation"].get("devices", {}).get("results", ())
    missing = sorted(
        result["device"] for result in results if (result["driver"], result["device"]) not in by_name
    )
    if missing:
        return _refuse(
            what, f'holds device "{missing[0]}", which this machine no longer has', "delete the pod"
        )
    return tuple(by_name[result["driver"], result["device"]] for result in results)


def _refuse(subject: str, detail: str, remedy: str = "") -> Rejected:
    return Rejected(WaitingReason.CLAIM_NOT_READY, subject, detail, remedy)
