"""The network of a pod of several containers: a container that only waits holds it, and the others join it.

It is created before the first of them starts and removed after the last. If it ends in between, the others
keep running without a network. They are killed then and start again, as in Kubernetes.
"""

import asyncio
import platform
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from modelplane.host import addresses
from modelplane.kube import timestamps
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods import narrowing
from modelplane.kubelet.records import NETWORK, Attempt, Container, PodRecord
from modelplane.kubelet.runtime.containers import cli, container_arguments, pause
from modelplane.kubelet.runtime.containers.cli import ContainerRuntime, ContainerRuntimeError, NoSuchObject

LOST = "PodNetworkLost"
LOST_MESSAGE = "the container that held the network of the pod ended, and the others restart with a new one"


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
            await asyncio.to_thread(pause.install, directory.pause, platform.machine())
        except KeyError:
            raise ContainerRuntimeError(
                f"a pod of several containers needs a machine of {' or '.join(sorted(pause.PROGRAMS))}, and "
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
        if state["Status"] in cli.ENDED:
            return True
        return timestamps.parse(str(state["StartedAt"])) > timestamps.parse(since)

    async def forget(self) -> None:
        """Remove the container that holds it; raise ``ContainerRuntimeError`` unless it is gone."""
        if container := self._attempt.container:
            with suppress(NoSuchObject):
                await cli.find_runtime(container.engine).do("rm", "--force", "--volumes", container.name)

    @property
    def _attempt(self) -> Attempt:
        return self._machine.directory.get_pod(self._record.uid).network


def find_network(machine: Machine, record: PodRecord, pod: Mapping[str, Any]) -> PodNetwork | None:
    """Return the network of a pod; None for a pod of one container, which has a network of its own."""
    return PodNetwork(machine, record, pod) if len(narrowing.list_containers(pod)) > 1 else None
