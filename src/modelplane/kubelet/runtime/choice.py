"""Choice of the runtime for a pod's container.

Unless a container runtime is configured, an installed program that replaces the image comes first: it starts
at once, and nothing is pulled. Every other image runs in the container runtime, if one answers. A container
keeps its runtime.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.kubelet import refusals
from modelplane.kubelet.engines import launchers
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.records import Attempt, ContainerDirectory, PodRecord
from modelplane.kubelet.refusals import Refusal
from modelplane.kubelet.runtime.containers import cli
from modelplane.kubelet.runtime.containers.cli import Choice, ContainerRuntime
from modelplane.kubelet.runtime.containers.container_runtime import UNAVAILABLE, PodContainers
from modelplane.kubelet.runtime.containers.images import Pulls
from modelplane.kubelet.runtime.host.host_runtime import HostProcesses
from modelplane.kubelet.runtime.launch import NotYet
from modelplane.kubelet.runtime.protocol import Runtime


class Runtimes:
    """The runtimes of one pod."""

    def __init__(self, machine: Machine, record: PodRecord) -> None:
        self._machine = machine
        self._record = record
        self._pulls = Pulls(
            machine.client, record.namespace, machine.directory.pod(record.uid).path / ".pull"
        )

    def of(self, attempt: Attempt) -> Runtime:
        """Return the runtime that an attempt belongs to."""
        container = attempt.container
        if container is None:
            return HostProcesses(self._machine, self._record)
        return self._containers(cli.runtime_of(container.engine))

    async def choose(self, directory: ContainerDirectory, pod: Mapping[str, Any]) -> Runtime:
        """Return the runtime of a container's next attempt; raise ``NotYet`` where the wanted one is away."""
        if before := directory.unfinished() or directory.latest():
            return self.of(before)
        runtimes = self._machine.container_runtimes
        if runtimes.choice is Choice.AUTO and self._stands_in(pod):
            return HostProcesses(self._machine, self._record)
        runtime = await runtimes.answering()
        if runtime is not None:
            return self._containers(runtime)
        if runtimes.choice in {Choice.AUTO, Choice.NONE}:
            return HostProcesses(self._machine, self._record)
        message = (
            f"the container runtime {runtimes.choice} does not answer: start it, or choose another one with "
            "--container-engine"
        )
        raise NotYet(Refusal(UNAVAILABLE, message))

    def _stands_in(self, pod: Mapping[str, Any]) -> bool:
        """Return True if a program of this machine can replace a pod's image."""
        container = pod["spec"]["containers"][0]
        # The values of references are not known yet, and are checked at the start.
        variables = {entry["name"]: entry.get("value", "") for entry in container.get("env", ())}
        try:
            launchers.command_line(container, variables, self._record.address, host_commands=False)
        except launchers.CannotLaunch:
            return False
        return not refusals.refusals(pod)

    def _containers(self, runtime: ContainerRuntime) -> PodContainers:
        return PodContainers(self._machine, self._record, runtime, self._pulls)
