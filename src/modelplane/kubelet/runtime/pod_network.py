"""The network of a pod of several containers: a container that only waits holds it, and the others join it.

It is created before the first of them starts and removed after the last. If it ends in between, the others
keep running without a network. They are killed then and start again, as in Kubernetes.

The program that waits must run in any image, some of which contain nothing but one program, so it needs no
library, no shell and no other file. It is a few instructions of a machine, in the smallest ELF file that
Linux accepts: a container runtime mounts it into the image that the pod has already.
"""

import asyncio
import platform
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelplane.host import addresses
from modelplane.kube import timestamps
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods import views
from modelplane.kubelet.records import NETWORK, Attempt, Container, PodRecord
from modelplane.kubelet.runtime import container_arguments, container_cli
from modelplane.kubelet.runtime.container_cli import ContainerRuntime, ContainerRuntimeError, NoSuchObject

_ADDRESS = 0x400000
_HEADER = struct.Struct("<4s5B7xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ELF_64_LITTLE_ENDIAN = (2, 1, 1, 0, 0)
_EXECUTABLE = 2
_LOADED = 1
_READ_AND_EXECUTE = 5
_PAGE = 0x1000
LOST = "PodNetworkLost"
LOST_MESSAGE = "the container that held the network of the pod ended, and the others restart with a new one"


@dataclass(frozen=True, slots=True)
class Instructions:
    """The program of one machine."""

    machine: int
    """Its number in ELF (``e_machine``)."""
    code: bytes


PROGRAMS: Mapping[str, Instructions] = {
    "x86_64": Instructions(
        62,
        bytes.fromhex(
            "b822000000"  # mov eax, 34: pause(2)
            "0f05"  # syscall
            "ebf7"  # jmp to the beginning
        ),
    ),
    # There is no pause(2): ppoll(2) of nothing, without a timeout.
    "aarch64": Instructions(
        183,
        bytes.fromhex(
            "000080d2"  # mov x0, 0
            "010080d2"  # mov x1, 0
            "020080d2"  # mov x2, 0
            "030080d2"  # mov x3, 0
            "040080d2"  # mov x4, 0
            "280980d2"  # mov x8, 73: ppoll(2)
            "010000d4"  # svc 0
            "f9ffff17"  # b to the beginning
        ),
    ),
}
"""By the machine's name, as ``uname -m`` says it."""


def build_program(instructions: Instructions) -> bytes:
    """Return the file (elf(5)): a header, one segment, and the instructions."""
    begin = _HEADER.size + _SEGMENT.size
    size = begin + len(instructions.code)
    header = _HEADER.pack(
        b"\x7fELF",
        *_ELF_64_LITTLE_ENDIAN,
        _EXECUTABLE,
        instructions.machine,
        1,
        _ADDRESS + begin,
        _HEADER.size,
        0,
        0,
        _HEADER.size,
        _SEGMENT.size,
        1,
        0,
        0,
        0,
    )
    segment = _SEGMENT.pack(_LOADED, _READ_AND_EXECUTE, 0, _ADDRESS, _ADDRESS, size, size, _PAGE)
    return header + segment + instructions.code


def install_pause(path: Path, machine: str) -> None:
    """Write the program of a machine, once; ``KeyError`` for a machine without one."""
    content = build_program(PROGRAMS[machine])
    if path.is_file() and path.read_bytes() == content:
        return
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(content)
    unfinished.chmod(0o755)
    unfinished.replace(path)


class PodNetwork:
    """The network of one pod."""

    def __init__(self, machine: Machine, record: PodRecord, pod: Mapping[str, Any]) -> None:
        """``pod``: the whole pod, whose ports never change."""
        self._machine = machine
        self._record = record
        self._pod = pod
        # Containers that start together must not create it twice.
        self._lock = asyncio.Lock()

    @property
    def name(self) -> str:
        """The name of the container that holds it."""
        return container_arguments.name_container(self._record.uid, NETWORK, 0)

    async def hold(self, runtime: ContainerRuntime, image: str) -> str:
        """Return the id of the container that holds it, which is made of an image of the pod if necessary."""
        async with self._lock:
            try:
                described = await runtime.inspect(self.name)
            except NoSuchObject:
                held = await self._create(runtime, image)
            else:
                held = str(described["Id"])
                if described["State"]["Status"] == "running":
                    return held
            await runtime.do("start", held)
            return held

    async def _create(self, runtime: ContainerRuntime, image: str) -> str:
        directory = self._machine.directory
        try:
            await asyncio.to_thread(install_pause, directory.pause, platform.machine())
        except KeyError:
            raise ContainerRuntimeError(
                f"a pod of several containers needs a machine of {' or '.join(sorted(PROGRAMS))}, and "
                f"this is {platform.machine()}: start the fleet with --container-engine none"
            ) from None
        attempt = self._attempt
        attempt.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        attempt.hand_over(Container(runtime.name, self.name, image))
        create = container_arguments.build_holder_arguments(
            runtime.kind,
            container_arguments.build_identity(directory.id, self._record, NETWORK, 0),
            image,
            self._pod,
            addresses.find_reported(self._record.address),
            str(directory.pause),
        )
        return (await runtime.do(*create)).split()[-1]

    async def is_lost(self, runtime: ContainerRuntime, since: str) -> bool:
        """Return True if a container that joined it at some time is without a network now."""
        try:
            state = (await runtime.inspect(self.name))["State"]
        except NoSuchObject:
            return True
        if state["Status"] in container_cli.ENDED:
            return True
        return timestamps.parse(str(state["StartedAt"])) > timestamps.parse(since)

    async def forget(self) -> None:
        """Remove the container that holds it; raise ``ContainerRuntimeError`` unless it is gone."""
        if container := self._attempt.container:
            with suppress(NoSuchObject):
                await container_cli.find_runtime(container.engine).do(
                    "rm", "--force", "--volumes", container.name
                )

    @property
    def _attempt(self) -> Attempt:
        return self._machine.directory.get_pod(self._record.uid).network


def find_network(machine: Machine, record: PodRecord, pod: Mapping[str, Any]) -> PodNetwork | None:
    """Return the network of a pod; None for a pod of one container, which has a network of its own."""
    return PodNetwork(machine, record, pod) if len(views.list_containers(pod)) > 1 else None
