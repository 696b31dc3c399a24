"""Containers of a pod, each run by a container runtime.

Callers narrow a pod to one container (``views.select_container``), so the first of ``spec.containers`` is
the only one here.

A container is started once. Its attempt is recorded before the runtime is asked for anything, its name
follows from the attempt, and it is started by the id that its creation returned. After a crash at any moment
the next agent finds the container by its name: one that has run is the attempt, one that has not is removed
and created again. A runtime that does not answer proves nothing about its containers.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from modelplane.api.rejected import Rejected
from modelplane.host import addresses
from modelplane.host.file_system import write_private
from modelplane.kube.resources import Object
from modelplane.kubelet import local_devices, log_files, node, pod_refusals
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason
from modelplane.kubelet.engines import launchers, llama_cpp
from modelplane.kubelet.local_devices import NVIDIA_DRIVER
from modelplane.kubelet.log_files import Selection
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods import probes
from modelplane.kubelet.pods.probes import Answer
from modelplane.kubelet.records import Attempt, Container, ContainerDirectory, Exit, PodRecord, Started
from modelplane.kubelet.runtime import container_arguments, container_environment, launch, pod_network
from modelplane.kubelet.runtime.container_arguments import ContainerIdentity, ContainerInputs
from modelplane.kubelet.runtime.container_cli import (
    ENDED,
    NEVER,
    ContainerRuntime,
    ContainerRuntimeError,
    NoSuchObject,
)
from modelplane.kubelet.runtime.image_pulls import Pulls, expand_name
from modelplane.kubelet.runtime.launch import raise_rejected
from modelplane.kubelet.runtime.pod_network import PodNetwork
from modelplane.kubelet.runtime.protocol import Tell
from modelplane.kubelet.runtime.shim import format_timestamp
from modelplane.kubelet.volumes import volumes

_START_FAILED = 128
_KILLED = 137

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PodContainer:
    """The runtime of one container of a pod, which a container runtime runs.

    ``pod`` is always narrowed to that container (``views.select_container``).
    """

    machine: Machine
    record: PodRecord
    runtime: ContainerRuntime
    pulls: Pulls
    network: PodNetwork | None = None
    """The network that the container shares with others of its pod; None if it is the only one."""
    least_wait_s: float = 1.0
    """Least time between two checks that a container has ended."""
    kill_again_s: float = 10.0

    async def start(self, pod: Object, directory: ContainerDirectory, tell: Tell) -> Attempt:
        """Pull the image, create the container, start it."""
        for rejected in pod_refusals.find_container_refusals(pod):
            raise CannotStart(rejected)
        unfinished = directory.find_unfinished()
        try:
            if unfinished is not None and await self._has_run(unfinished):
                return unfinished
        except ContainerRuntimeError as error:
            # A second container could run beside this one.
            fault = f"{self.runtime.name} does not answer: {error}"
            raise CannotStart(Rejected(WaitingReason.RUNTIME_UNAVAILABLE, detail=fault)) from error
        try:
            with launch.convert_errors():
                image = await self.pulls.get(self.runtime, pod, _remedy(pod), tell)
                inputs = await self._inputs(pod, image)
            for old in directory.list_superseded():
                await self.forget(old)
            await self._make_network()
            if self.network is not None:
                name = expand_name(pod["spec"]["containers"][0]["image"])
                inputs = replace(inputs, joins=await self.network.hold(self.runtime, name))
            attempt = unfinished or directory.make_attempt()
            identity = container_arguments.build_identity(
                self.machine.directory.id, self.record, directory.path.name, attempt.number
            )
            await self._run(attempt, pod, identity, inputs, image)
        except ContainerRuntimeError as error:
            raise CannotStart(Rejected(WaitingReason.CREATE_ERROR, detail=str(error))) from error
        return attempt

    async def _has_run(self, attempt: Attempt) -> bool:
        """Return True if the container of an unfinished attempt ran; remove one that did not."""
        try:
            described = await self.runtime.inspect(self._name(attempt))
        except NoSuchObject:
            return False
        if started := _started(described):
            attempt.record_start(started)
            return True
        # Without force: a container that starts at this moment stays.
        with suppress(NoSuchObject):
            await self.runtime.do("rm", "--volumes", described["Id"])
        return False

    async def _inputs(self, pod: Object, image: Mapping[str, Any]) -> ContainerInputs:
        container = pod["spec"]["containers"][0]
        allocated = await local_devices.find_devices(self.machine.client, pod, self.machine.devices)
        sources = await launch.fetch_sources(self.machine.client, pod, container, self.record.namespace)
        # In its own network the pod has the address that the API shows.
        reported_record = replace(self.record, address=addresses.find_reported(self.record.address))
        variables = raise_rejected(
            container_environment.resolve(container, pod, reported_record.address, node.ADDRESS, sources)
        )
        mounted = await volumes.build_mounts(
            self.machine, pod, container, reported_record, variables, sources
        )
        nvidia = [device for device in allocated if device.driver == NVIDIA_DRIVER]
        # CUDA images ask for every device, which a container runtime may be configured to give.
        hidden = {} if nvidia else {"NVIDIA_VISIBLE_DEVICES": "void"}
        user = str((image.get("Config") or {}).get("User") or "")
        raise_rejected(_check_user(pod["spec"], container, user))
        return ContainerInputs(
            address=reported_record.address,
            environment={llama_cpp.POD_ADDRESS_VARIABLE: reported_record.address, **hidden, **variables},
            mounts=mounted,
            gpus=tuple(device.uuid for device in nvidia),
            memory_bytes=local_devices.measure_memory(),
            image_user=user,
            expanded=variables,
        )

    async def _make_network(self) -> None:
        if container_arguments.NETWORK in await self._networks():
            return
        self.machine.directory.record_network(self.runtime.name)
        options = ("--subnet", addresses.POD_CIDR, "--gateway", container_arguments.GATEWAY)
        try:
            await self.runtime.do("network", "create", *options, container_arguments.NETWORK)
        except ContainerRuntimeError as error:
            # Another pod's start may have been faster.
            if container_arguments.NETWORK not in await self._networks():
                raise ContainerRuntimeError(
                    f'cannot make the network "{container_arguments.NETWORK}" of pods, '
                    f"{addresses.POD_CIDR}: {error}: remove the network that uses these addresses, for "
                    "example one with that name from another container runtime"
                ) from error

    async def _networks(self) -> list[str]:
        return (await self.runtime.do("network", "ls", "--format", "{{.Name}}")).split()

    async def _run(
        self,
        attempt: Attempt,
        pod: Object,
        identity: ContainerIdentity,
        inputs: ContainerInputs,
        image: Mapping[str, Any],
    ) -> None:
        spec = pod["spec"]["containers"][0]
        file = attempt.directory / "environment"
        create = raise_rejected(
            container_arguments.create_arguments(
                self.runtime.kind, identity, expand_name(spec["image"]), pod, inputs, str(file)
            )
        )
        attempt.hand_over(Container(self.runtime.name, identity.name, spec["image"]))
        try:
            write_private(file, create.environment_file)
            created = await self.runtime.do(*create.arguments, variables=create.variables)
        finally:
            file.unlink(missing_ok=True)
        image_id = str(next(iter(image.get("RepoDigests") or ()), image["Id"]))
        await self._start(attempt, created.split()[-1], image_id)

    async def _start(self, attempt: Attempt, created: str, image_id: str) -> None:
        problem = ""
        try:
            await self.runtime.do("start", created)
        except ContainerRuntimeError as error:
            problem = str(error)
        described = await self.runtime.inspect(created)
        if started := _started(described):
            attempt.record_start(replace(started, image_id=image_id))
        elif problem:
            # The container runtime answers that the container did not start.
            code = described["State"].get("ExitCode") or _START_FAILED
            attempt.record_exit(_exit(code, reason="StartError", message=problem))
        else:
            raise ContainerRuntimeError(f"{self.runtime.name} did not report whether the container started")

    async def wait(self, attempt: Attempt) -> Exit:
        """Wait until the container runtime reports that the container has ended, or does not exist."""
        silent, lost = "", False
        while (ended := attempt.exit) is None:
            began = time.monotonic()
            try:
                ended = await self._end(attempt)
                if ended is not None:
                    if lost:
                        ended = msgspec.structs.replace(
                            ended, reason=pod_network.LOST, message=pod_network.LOST_MESSAGE
                        )
                    attempt.record_exit(ended)
                    break
                silent = ""
                network = self.network
                lost = network is not None and await network.is_lost(self.runtime, attempt.started_at)
                if lost:
                    await self._send(attempt, "KILL")
                await self._wait_for_change(attempt, lost=lost)
            except ContainerRuntimeError as error:
                if str(error) != silent:
                    silent = str(error)
                    _log.warning(
                        'cannot learn of pod "%s" from %s: %s', self.record.name, self.runtime.name, silent
                    )
            await asyncio.sleep(max(self.least_wait_s - (time.monotonic() - began), 0.0))
        attempt.settle()
        return ended

    async def _wait_for_change(self, attempt: Attempt, *, lost: bool) -> None:
        """Wait until a container has ended, or what holds its network, or for some minutes."""
        watched = [self._id(attempt), *([self.network.name] if self.network and not lost else [])]
        waits = {asyncio.create_task(self.runtime.wait(name)) for name in watched}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        for task in done:
            task.result()

    async def _end(self, attempt: Attempt) -> Exit | None:
        try:
            state = (await self.runtime.inspect(self._id(attempt)))["State"]
        except NoSuchObject:
            return _exit(
                _KILLED, message=f"{self.runtime.name} no longer has the container", supervised=False
            )
        if state["Status"] not in ENDED:
            return None
        killed = bool(state.get("OOMKilled"))
        return Exit(
            int(state["ExitCode"]),
            signal=0,
            finished_at=str(state["FinishedAt"]),
            supervised=True,
            reason="OOMKilled" if killed else "",
            message="the container exceeded its memory limit" if killed else str(state.get("Error") or ""),
        )

    async def terminate(self, attempt: Attempt) -> None:
        """Send the image's stop signal."""
        started = attempt.started
        await self._send(attempt, (started.stop_signal if started else "") or "TERM")

    async def kill(self, attempt: Attempt) -> None:
        """Send SIGKILL until the container has ended: the container runtime may not answer for a while."""
        while attempt.exit is None:
            await self._send(attempt, "KILL")
            with suppress(TimeoutError):
                async with asyncio.timeout(self.kill_again_s):
                    await self.wait(attempt)

    async def _send(self, attempt: Attempt, signal: str) -> None:
        try:
            await self.runtime.do("kill", "--signal", signal, self._id(attempt))
        except ContainerRuntimeError as error:
            # It may have ended by itself, which ``wait`` reports.
            _log.debug('cannot send %s to pod "%s": %s', signal, self.record.name, error)

    async def ask(
        self, attempt: Attempt, handler: Mapping[str, Any], spec: Mapping[str, Any], timeout_s: float
    ) -> Answer:
        """Send a request to the published address, or execute a command in the container."""
        if "exec" not in handler:
            return await probes.ask(handler, spec, self.record.address, timeout_s, forwarded=True)
        command = handler["exec"].get("command", ())
        try:
            await self.runtime.do("exec", self._id(attempt), *command, timeout_s=timeout_s)
        except ContainerRuntimeError as error:
            return Answer(False, f"the command failed: {error}")
        return Answer(True)

    async def log(
        self, attempt: Attempt, selection: Selection, *, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        """Yield the log as the container runtime prints it."""
        left = selection.limit_bytes
        options = (
            *(("--timestamps",) if selection.timestamps else ()),
            *(("--follow",) if follow else ()),
            *(("--tail", str(selection.tail_lines)) if selection.tail_lines is not None else ()),
            *(("--since", selection.since) if selection.since else ()),
        )
        printed = self.runtime.stream("logs", *options, self._id(attempt))
        async with contextlib.aclosing(printed):
            # The message of a failure is part of the output.
            with suppress(ContainerRuntimeError):
                async for data in printed:
                    yield data if left is None else data[:left]
                    if left is not None:
                        left -= len(data)
                        if left <= 0:
                            return

    async def read_termination_message(self, attempt: Attempt) -> str | None:
        """Return the end of the log."""
        printed = self.runtime.stream("logs", "--tail", str(log_files.ENDING_LINES), self._id(attempt))
        try:
            parts = [data async for data in printed]
        except ContainerRuntimeError:
            return None  # the output is the container runtime's message
        return log_files.limit_message(b"".join(parts).rstrip(b"\n"))

    def get_container_id(self, attempt: Attempt) -> str:
        """Return the container's id, with the scheme of its container runtime."""
        return f"{self.runtime.kind.scheme}://{self._id(attempt)}"

    def get_image_id(self, attempt: Attempt) -> str:
        """Return the digest of the image; empty if unknown."""
        started = attempt.started
        return started.image_id if started else ""

    async def forget(self, attempt: Attempt) -> None:
        """Remove the container; raise ``ContainerRuntimeError`` unless it is confirmed to be gone."""
        if attempt.container is not None:
            with suppress(NoSuchObject):
                await self.runtime.do("rm", "--force", "--volumes", self._name(attempt))

    def _name(self, attempt: Attempt) -> str:
        container = attempt.container
        return container.name if container else ""

    def _id(self, attempt: Attempt) -> str:
        started = attempt.started
        return started.id if started else self._name(attempt)


def _started(container: Mapping[str, Any]) -> Started | None:
    """Return the record of a container that runs or has run; None if it never started."""
    at = str(container["State"].get("StartedAt") or "")
    if not at or at.startswith(NEVER):
        return None
    signal = (container.get("Config") or {}).get("StopSignal")
    return Started(str(container["Id"]), str(container.get("Image", "")), at, str(signal or ""))


def _exit(code: int, *, message: str, reason: str = "", supervised: bool = True) -> Exit:
    return Exit(
        code,
        signal=0,
        finished_at=format_timestamp(time.time_ns()),
        supervised=supervised,
        reason=reason,
        message=message,
    )


def _remedy(pod: Mapping[str, Any]) -> str:
    """Return the way to run a pod whose image cannot be pulled; empty if there is none."""
    engine = launchers.find_engine(pod["spec"]["containers"][0]["image"])
    return f"; with --container-engine none {engine} runs without a container" if engine else ""


def _check_user(pod: Mapping[str, Any], container: Mapping[str, Any], image_user: str) -> Rejected | None:
    contexts = (pod.get("securityContext", {}), container.get("securityContext", {}))
    user = container_arguments.run_as_user(*contexts, image_user).partition(":")[0]
    must_not_be_root = contexts[1].get("runAsNonRoot", contexts[0].get("runAsNonRoot"))
    if not must_not_be_root or user not in {"", "0", "root"}:
        return None
    fault = "the container would run as root, which runAsNonRoot forbids"
    return Rejected(WaitingReason.CONFIG_ERROR, detail=fault, remedy="set runAsUser")
