"""This machine's devices, published for kube-scheduler to allocate (``resource.k8s.io/v1``).

One slice per driver, each a pool named for the node. A pool's generation rises when its devices
change, so that the scheduler never mixes what was with what is.
"""

from collections.abc import Iterable, Sequence

from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.devices.local_device import CPU_DRIVER, NVIDIA_DRIVER, DiscoveredDevice

_DRIVERS = (CPU_DRIVER, NVIDIA_DRIVER)


async def publish(client: Client, node: Object, devices: Iterable[DiscoveredDevice]) -> None:
    """Make the slices of a node show its devices, and remove a slice whose devices are gone."""
    by_driver: dict[str, list[DiscoveredDevice]] = {driver: [] for driver in _DRIVERS}
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
