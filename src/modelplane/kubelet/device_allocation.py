"""Devices of this machine and kube-scheduler (``resource.k8s.io/v1``): published for it, allocated by it.

One ResourceSlice per driver, each a pool named for the node. A pool's generation rises when its devices
change, so that the scheduler never mixes what was with what is.

The scheduler allocates and reserves before it binds; here a ResourceClaim is only read, and a pod whose claim
is not its own does not start.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason
from modelplane.kubelet.device_discovery import CPU_DRIVER, NVIDIA_DRIVER, DiscoveredDevice


async def publish(client: Client, node: Object, devices: Iterable[DiscoveredDevice]) -> None:
    """Make the slices of a node show its devices, and remove a slice whose devices are gone."""
    by_driver: dict[str, list[DiscoveredDevice]] = {driver: [] for driver in (CPU_DRIVER, NVIDIA_DRIVER)}
    for device in devices:
        by_driver[device.driver].append(device)
    # Listed, not asked for by name: a node may not ask for a slice that does not exist yet.
    fields = f"spec.nodeName={node['metadata']['name']}"
    published = (await client.list(resources.RESOURCE_SLICES, fields=fields)).items
    slices = {item["metadata"]["name"]: item for item in published}
    for driver, devices_of_driver in by_driver.items():
        name = name_slice(node["metadata"]["name"], driver)
        existing = slices.get(name)
        owners = existing["metadata"].get("ownerReferences", ()) if existing else ()
        is_ours = any(owner["uid"] == node["metadata"]["uid"] for owner in owners)
        if existing is not None and not (devices_of_driver and is_ours):
            await client.delete(resources.RESOURCE_SLICES, name, uid=existing["metadata"]["uid"])
            existing = None
        if not devices_of_driver:
            continue
        desired = build_slice(node, driver, devices_of_driver, _generation(existing))
        if existing is None:
            await client.create(desired)
        elif existing["spec"]["devices"] != desired["spec"]["devices"]:
            desired = build_slice(node, driver, devices_of_driver, _generation(existing) + 1)
            await client.patch(resources.RESOURCE_SLICES, name, {"spec": desired["spec"]})


def name_slice(node: str, driver: str) -> str:
    """Return the name of the slice of one driver's devices."""
    return f"{node}-{driver.replace('.', '-')}"


def build_slice(node: Object, driver: str, devices: Sequence[DiscoveredDevice], generation: int) -> Object:
    """Return the slice of one driver's devices of a node."""
    name = node["metadata"]["name"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name_slice(name, driver), "ownerReferences": [owner]},
        "spec": {
            "driver": driver,
            "nodeName": name,
            "pool": {"name": name, "generation": generation, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": device.name,
                    "attributes": {key: dict(value) for key, value in device.attributes.items()},
                    "capacity": {key: {"value": value} for key, value in device.capacity.items()},
                }
                for device in devices
            ],
        },
    }


def _generation(existing: Object | None) -> int:
    return int(existing["spec"]["pool"]["generation"]) if existing else 1


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
