"""Devices that kube-scheduler allocated to a pod (``resource.k8s.io/v1`` ResourceClaim).

The scheduler allocates and reserves before it binds; here it is only read, and a pod whose claim
is not its own does not start.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.devices.local_device import DiscoveredDevice
from modelplane.kubelet.pod_refusals import Refusal

REASON = "ClaimNotReady"


class ClaimNotReady(Exception):
    """A claim that does not exist, is not allocated, or is not reserved for the pod."""

    @property
    def refusal(self) -> Refusal:
        """The reason and sentence for the pod's status."""
        return Refusal(REASON, str(self))


async def find_devices(
    client: Client, pod: Mapping[str, Any], machine: Iterable[DiscoveredDevice]
) -> tuple[DiscoveredDevice, ...]:
    """Return the devices of this machine that the claims of a narrowed pod's container hold.

    Raises ``ClaimNotReady`` for any claim of the pod: no container starts before all are ready.
    """
    namespace = pod["metadata"]["namespace"]
    container = pod["spec"]["containers"][0]
    named = {entry["name"] for entry in container.get("resources", {}).get("claims", ())}
    matching: list[DiscoveredDevice] = []
    for entry in pod["spec"].get("resourceClaims", ()):
        name = claim_name(entry, pod)
        if not name:
            continue
        claim = await client.get(resources.RESOURCE_CLAIMS, name, namespace)
        devices = list_allocated(name, claim, pod, machine)
        matching.extend(devices if entry["name"] in named else ())
    return tuple(matching)


def claim_name(entry: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    """Return the name of a pod's claim; empty where its template made none."""
    if "resourceClaimName" in entry:
        return str(entry["resourceClaimName"])
    for status in pod.get("status", {}).get("resourceClaimStatuses", ()):
        if status["name"] == entry["name"]:
            return str(status.get("resourceClaimName") or "")
    raise ClaimNotReady(f'claim "{entry["name"]}" has not been made from its template yet')


def list_allocated(
    name: str, claim: Object | None, pod: Mapping[str, Any], machine: Iterable[DiscoveredDevice]
) -> tuple[DiscoveredDevice, ...]:
    """Return the devices of one claim."""
    if claim is None:
        raise ClaimNotReady(f'ResourceClaim "{name}" does not exist: create it, or delete the pod')
    status = claim.get("status", {})
    if "allocation" not in status:
        raise ClaimNotReady(f'ResourceClaim "{name}" is not allocated: leave the binding to kube-scheduler')
    if not any(user.get("uid") == pod["metadata"]["uid"] for user in status.get("reservedFor", ())):
        raise ClaimNotReady(f'ResourceClaim "{name}" is not reserved for this pod: another one uses it')
    by_name = {(device.driver, device.name): device for device in machine}
    results = status["allocation"].get("devices", {}).get("results", ())
    missing = sorted(
        result["device"] for result in results if (result["driver"], result["device"]) not in by_name
    )
    if missing:
        raise ClaimNotReady(
            f'ResourceClaim "{name}" holds device "{missing[0]}", which this machine no longer has: '
            "delete the pod"
        )
    return tuple(by_name[result["driver"], result["device"]] for result in results)
