from types import SimpleNamespace

import pytest

from modelplane.kubelet import local_devices
from modelplane.kubelet.local_devices import DiscoveredDevice, normalize_version

# What NVML (nvidia-ml-py 13) answers for an H100, by the names of its functions.
H100 = SimpleNamespace(
    nvmlDeviceGetHandleByIndex=lambda index: index,
    nvmlDeviceGetCudaComputeCapability=lambda _handle: (9, 0),
    nvmlSystemGetCudaDriverVersion_v2=lambda: 12080,
    nvmlDeviceGetUUID=lambda _handle: "GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c",
    nvmlDeviceGetName=lambda _handle: b"NVIDIA H100 80GB HBM3",
    nvmlDeviceGetBrand=lambda _handle: 14,
    nvmlDeviceGetArchitecture=lambda _handle: 9,
    nvmlSystemGetDriverVersion=lambda: "570.04.15",
    nvmlDeviceGetMemoryInfo=lambda _handle: SimpleNamespace(total=85520809984),
)


def test_a_gpu_is_described_as_its_dra_driver_does() -> None:
    assert local_devices._gpu(H100, 3) == DiscoveredDevice(
        "gpu.nvidia.com",
        "gpu-3",
        {
            "type": {"string": "gpu"},
            "uuid": {"string": "GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "570.4.15"},
            "cudaDriverVersion": {"version": "12.8.0"},
        },
        {"memory": "81559Mi"},
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("535.104.05", "535.104.5", id="a leading zero is dropped"),
        pytest.param("12.8", "12.8.0", id="a missing number is 0"),
        pytest.param("1.2.3.4", "1.2.3", id="a fourth number is dropped"),
    ],
)
def test_a_version_is_strict(text: str, version: str) -> None:
    assert normalize_version(text) == version
