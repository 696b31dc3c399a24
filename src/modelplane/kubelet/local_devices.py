"""Devices of this machine for Dynamic Resource Allocation (KEP-4381): discovered, published, allocated.

A machine without a GPU has one device, its CPU. A device has the attributes that its DRA driver would
publish, so a selector written for a real cluster means the same here. For NVIDIA GPUs, the names of
attributes and the spelling of their values are that driver's (k8s-dra-driver-gpu, ``gpu.nvidia.com``); the
facts come from NVML, the management library of NVIDIA's driver.

There is one ResourceSlice per driver, each a pool named for the node. A pool's generation rises when its
devices change, so that the scheduler never mixes what was with what is.

kube-scheduler allocates and reserves before it binds; here a ResourceClaim is only read, and a pod whose
claim is not its own does not start.
"""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason

Attribute = Mapping[str, str | int | bool]
"""One typed value in its wire form: ``{"string": "Hopper"}``, ``{"version": "9.0.0"}``, ``{"int": 8}``."""

NVIDIA_DRIVER = "gpu.nvidia.com"
CPU_DRIVER = "cpu.modelplane.ai"
_MEBIBYTE = 1024 * 1024
_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
}

_BRANDS = {
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "Grid",
    5: "GeForce",
    6: "Titan",
    7: "NvidiaVApps",
    8: "NvidiaVPC",
    9: "NvidiaVCS",
    10: "NvidiaVWS",
    11: "NvidiaCloudGaming",
    12: "QuadroRTX",
    13: "NvidiaRTX",
    14: "Nvidia",
    15: "GeForceRTX",
    16: "TitanRTX",
}

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class DiscoveredDevice:
    """One device of this machine."""

    driver: str
    name: str
    """Its name within the pool of its node, such as ``gpu-0``."""
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, str]
    """Kubernetes quantities by bare name."""

    @property
    def uuid(self) -> str:
        """Its identifier in the vendor's tools; empty if it has none."""
        return str(self.attributes.get("uuid", {}).get("string", ""))

    def drop_identity(self) -> "DiscoveredDevice":
        """Return the device without its name and uuid, as equal devices have it."""
        shared = {key: value for key, value in self.attributes.items() if key != "uuid"}
        return replace(self, name="", attributes=shared)


def format_mebibytes(size: int) -> str:
    """Return a number of bytes as a quantity, rounded down."""
    return f"{size // _MEBIBYTE}Mi"


def discover_gpus() -> tuple[DiscoveredDevice, ...]:
    """Return the GPUs that NVML reports; none without an NVIDIA driver or NVML binding."""
    try:
        import pynvml  # noqa: PLC0415 - not installed everywhere
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        return tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> DiscoveredDevice:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
    attributes: dict[str, Attribute] = {
        "type": {"string": "gpu"},
        "uuid": {"string": _text(nvml.nvmlDeviceGetUUID(handle))},
        "productName": {"string": _text(nvml.nvmlDeviceGetName(handle))},
        "brand": {"string": _BRANDS.get(nvml.nvmlDeviceGetBrand(handle), "Unknown")},
        "architecture": {"string": _ARCHITECTURES.get(nvml.nvmlDeviceGetArchitecture(handle), "Unknown")},
        "cudaComputeCapability": {"version": normalize_version(f"{major}.{minor}")},
        "driverVersion": {"version": normalize_version(_text(nvml.nvmlSystemGetDriverVersion()))},
        "cudaDriverVersion": {"version": normalize_version(f"{cuda // 1000}.{cuda % 1000 // 10}")},
    }
    capacity = {"memory": format_mebibytes(int(nvml.nvmlDeviceGetMemoryInfo(handle).total))}
    return DiscoveredDevice(NVIDIA_DRIVER, f"gpu-{index}", attributes, capacity)


def normalize_version(text: str) -> str:
    """Return a version in the strict form that DRA asks for: ``535.04`` is ``535.4.0``."""
    numbers = [str(int(part)) for part in text.split(".")[:3]]
    return ".".join([*numbers, "0", "0"][:3])


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


@dataclass(frozen=True, slots=True)
class Share:
    """The part of this machine that one of several nodes on it has: the ``part``-th of ``parts``, from 1."""

    part: int = 1
    parts: int = 1
    cpu_devices: int = 1
    """Number of devices that the part of the processors is offered as, each for one pod."""


WHOLE = Share()


def discover(share: Share = WHOLE) -> tuple[DiscoveredDevice, ...]:
    """Return the devices of this machine that a node has: NVIDIA GPUs, else a share of the CPU."""
    return discover_gpus()[share.part - 1 :: share.parts] or tuple(
        describe_cpu(share, number) for number in range(share.cpu_devices)
    )


def describe_cpu(share: Share = WHOLE, number: int = 0) -> DiscoveredDevice:
    """Return one of the equal devices that a share of this machine's processors and memory is offered as."""
    parts = share.parts * share.cpu_devices
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return DiscoveredDevice(
        driver=CPU_DRIVER,
        name=f"cpu-{number}",
        attributes={
            "type": {"string": "cpu"},
            # DRA limits a string attribute to 64 characters.
            "model": {"string": next(names, "unknown")[:64]},
            "architecture": {"string": get_architecture()},
            "cores": {"int": max(count_cores() // parts, 1)},
        },
        capacity={"memory": format_mebibytes(measure_memory() // parts)},
    )


def get_architecture() -> str:
    """Return the processor architecture by its name in Go and in Node labels."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def count_cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def measure_memory() -> int:
    """Return how much memory this process may use: the machine's, or its control group's if less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdecimal() else total


async def publish_devices(client: Client, node: Object, devices: Iterable[DiscoveredDevice]) -> None:
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
    named = {entry["name"] for entry in pod["spec"]["containers"][0].get("resources", {}).get("claims", ())}
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
        return _refuse(what, "is not reserved for this pod: another pod uses it")
    by_name = {(device.driver, device.name): device for device in machine}
    results = status["allocation"].get("devices", {}).get("results", ())
    missing = sorted(
        result["device"] for result in results if (result["driver"], result["device"]) not in by_name
    )
    if missing:
        return _refuse(
            what, f'refers to device "{missing[0]}", which this machine no longer has', "delete the pod"
        )
    return tuple(by_name[result["driver"], result["device"]] for result in results)


def _refuse(subject: str, detail: str, remedy: str = "") -> Rejected:
    return Rejected(WaitingReason.CLAIM_NOT_READY, subject, detail, remedy)
