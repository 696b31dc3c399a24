"""NVIDIA GPUs as the NVIDIA DRA driver publishes them.

The names of attributes and the spelling of their values are that driver's (k8s-dra-driver-gpu,
``gpu.nvidia.com``); the facts come from NVML, the management library of NVIDIA's driver.
"""

from typing import Any

from modelplane.kubelet.devices.local_device import (
    NVIDIA_DRIVER,
    Attribute,
    DiscoveredDevice,
    format_mebibytes,
)

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


def discover() -> tuple[DiscoveredDevice, ...]:
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
