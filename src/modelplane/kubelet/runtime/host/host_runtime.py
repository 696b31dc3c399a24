"""Pods as processes of this machine, each started by the launcher of its image."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.kube.resources import Object
from modelplane.kubelet.engines import launchers
from modelplane.kubelet.logs import log_files
from modelplane.kubelet.logs.log_files import Selection
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods import http_check
from modelplane.kubelet.pods.http_check import Answer
from modelplane.kubelet.records import Attempt, ContainerDirectory, Exit, PodRecord
from modelplane.kubelet.runtime import launch
from modelplane.kubelet.runtime.host import process_attempt
from modelplane.kubelet.runtime.protocol import Tell


@dataclass(frozen=True, slots=True)
class HostProcesses:
    """The runtime that needs no container runtime, for one container of a pod."""

    machine: Machine
    record: PodRecord
    name: str = ""
    """The container's part of its ids; empty for the first main container."""

    async def start(self, pod: Object, directory: ContainerDirectory, _tell: Tell) -> Attempt:
        """Start the program that stands in for the pod's image."""
        return await process_attempt.start(directory, await launch.prepare(self.machine, pod, self.record))

    async def wait(self, attempt: Attempt) -> Exit:
        """Wait for the attempt's supervisor, which outlives its engine."""
        return await process_attempt.wait(attempt)

    async def terminate(self, attempt: Attempt) -> None:
        """Send SIGTERM."""
        process_attempt.terminate(attempt)

    async def kill(self, attempt: Attempt) -> None:
        """Send SIGKILL to the engine's whole session."""
        await process_attempt.kill_for_certain(attempt)

    async def ask(
        self, _attempt: Attempt, handler: Mapping[str, Any], spec: Mapping[str, Any], timeout_s: float
    ) -> Answer:
        """Ask at the address that the pod binds."""
        return await http_check.ask(handler, spec, self.record.address, timeout_s)

    def log(self, attempt: Attempt, selection: Selection, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """Read the file that the supervisor writes."""
        # The record of its exit is removed with a pod that is deleted meanwhile.
        ended = (lambda: attempt.exit is not None or not attempt.kept) if follow else None
        return log_files.read(attempt.log, selection, ended)

    async def read_termination_message(self, attempt: Attempt) -> str | None:
        """Read the end of that file."""
        return log_files.read_end(attempt.log)

    def find_container_id(self, attempt: Attempt) -> str:
        """Return a name that no container runtime gives."""
        return "/".join(("process:/", self.record.uid, *filter(None, [self.name]), str(attempt.number)))

    def find_image_id(self, attempt: Attempt) -> str:
        """Return the engine that stands in for the image."""
        engine = launchers.find_engine(attempt.image)
        return f"process://{engine}" if engine else ""

    async def forget(self, _attempt: Attempt) -> None:
        """Do nothing: all that is kept is in the attempt's directory."""
