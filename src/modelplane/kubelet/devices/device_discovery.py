"""Hardware of this machine, as devices of Dynamic Resource Allocation (KEP-4381).

A machine without a GPU has one device, its CPU. Nothing here knows of an API server.
"""

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from modelplane.kubelet.devices import nvidia
from modelplane.kubelet.devices.local_device import (
    CPU_DRIVER,
    NVIDIA_DRIVER,
    DiscoveredDevice,
    format_mebibytes,
)

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


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
    return nvidia.discover()[share.part - 1 :: share.parts] or tuple(
        describe_cpu(share, number) for number in range(share.cpu_devices)
    )


def describe_cpu(share: Share = WHOLE, number: int = 0) -> DiscoveredDevice:
    """Return one of the equal devices that a share of this machine's processors and memory is offered as."""
    parts = share.parts * share.cpu_devices
    return DiscoveredDevice(
        driver=CPU_DRIVER,
        name=f"cpu-{number}",
        attributes={
            "type": {"string": "cpu"},
            "model": {"string": _model_name()},
            "architecture": {"string": find_architecture()},
            "cores": {"int": max(count_cores() // parts, 1)},
        },
        capacity={"memory": format_mebibytes(measure_memory() // parts)},
    )


def find_architecture() -> str:
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


def build_environment(
    machine: Iterable[DiscoveredDevice], allocated: Iterable[DiscoveredDevice]
) -> dict[str, str]:
    """Return the variables that make an engine see its allocated devices and no others."""
    if not any(device.driver == NVIDIA_DRIVER for device in machine):
        return {}
    uuids = [device.uuid for device in allocated if device.driver == NVIDIA_DRIVER]
    # CUDA numbers devices by speed; a uuid is independent of the order.
    return {"CUDA_VISIBLE_DEVICES": ",".join(uuids), "NVIDIA_VISIBLE_DEVICES": ",".join(uuids) or "void"}


def _model_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    # DRA limits a string attribute to 64 characters.
    return next(names, "unknown")[:64]
