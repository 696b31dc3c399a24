"""Choice of the runtime for a pod's container.

Unless a container runtime is configured, an installed program that replaces the image comes first: it starts
at once, and nothing is pulled. Every other image runs in the container runtime, if one answers. A container
keeps its runtime.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.kubelet import pod_refusals
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason
from modelplane.kubelet.engines import launchers
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods import views
from modelplane.kubelet.records import Attempt, ContainerDirectory, PodRecord
from modelplane.kubelet.runtime import container_cli, launch
from modelplane.kubelet.runtime.container_cli import Choice, ContainerRuntime
from modelplane.kubelet.runtime.container_runtime import PodContainer
from modelplane.kubelet.runtime.host_processes import HostProcesses
from modelplane.kubelet.runtime.image_pulls import Pulls
from modelplane.kubelet.runtime.pod_network import PodNetwork
from modelplane.kubelet.runtime.protocol import Runtime


class Runtimes:
    """The runtimes of one container of a pod."""

    def __init__(
        self, machine: Machine, record: PodRecord, name: str = "", network: PodNetwork | None = None
    ) -> None:
        """``name``: the container's part of its ids; empty for the first main container.

        ``network``: the one that it shares with the other containers of its pod.
        """
        self._machine = machine
        self._record = record
        self._network = network
        self._host = HostProcesses(machine, record, name)
        self._pulls = Pulls(
            machine.client, record.namespace, machine.directory.get_pod(record.uid).path / f".pull{name}"
        )

    def find(self, attempt: Attempt) -> Runtime:
        """Return the runtime that an attempt belongs to."""
        container = attempt.container
        if container is None:
            return self._host
        return self._containers(container_cli.find_runtime(container.engine))

    async def choose(self, directory: ContainerDirectory, pod: Mapping[str, Any]) -> Runtime:
        """Return the runtime of a container's next attempt.

        All containers of a pod have one runtime. Raises ``CannotStart`` if the configured one is away.
        """
        attempts = self._machine.directory.get_pod(self._record.uid).list_attempts()
        another = next((attempt for attempt in attempts if attempt.begun), None)
        if before := directory.find_unfinished() or directory.find_latest() or another:
            return self.find(before)
        runtimes = self._machine.container_runtimes
        if runtimes.choice is Choice.AUTO:
            with launch.convert_errors():
                if await self._stands_in(pod):
                    return self._host
        runtime = await runtimes.find_answering()
        if runtime is not None:
            # It is handed one container at a time, and no container may start if another one never can.
            for rejected in pod_refusals.find_container_refusals(pod):
                raise CannotStart(rejected)
            return self._containers(runtime)
        if runtimes.choice in {Choice.AUTO, Choice.NONE}:
            return self._host
        raise CannotStart(
            Rejected(
                WaitingReason.RUNTIME_UNAVAILABLE,
                f"the container runtime {runtimes.choice}",
                "does not answer",
                "start it, or choose another one with --container-engine",
            )
        )

    async def _stands_in(self, pod: Mapping[str, Any]) -> bool:
        """Return True if programs of this machine can replace all images of a pod."""
        for container in views.list_containers(pod):
            # The values of references are not known yet, and are checked at the start.
            variables = {entry["name"]: entry.get("value", "") for entry in container.get("env", ())}
            command = launchers.build_command_line(
                container, variables, self._record.address, host_commands=False
            )
            if isinstance(command, Rejected):
                return False
            if await launchers.check_author(self._machine.client, pod, container):
                return False
        return next(launch.find_obstacles(self._machine, pod), None) is None

    def _containers(self, runtime: ContainerRuntime) -> PodContainer:
        return PodContainer(self._machine, self._record, runtime, self._pulls, self._network)
