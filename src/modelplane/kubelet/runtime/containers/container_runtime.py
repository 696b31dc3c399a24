"""Pods as containers of a container engine.

The rule: a container is started once. Its attempt is on disk before the engine is asked for anything, its
name follows from the attempt, and it is started by the id that its creation gave. So whoever is killed at
whatever moment, the next agent finds by the name what became of it: one that has run is the attempt, one
that has not is removed and made again. An engine that does not answer has not said that anything ended.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from modelplane.host import addresses
from modelplane.host.private_files import write_private
from modelplane.kube.resources import Object
from modelplane.kubelet import node
from modelplane.kubelet.devices import claims, discovery
from modelplane.kubelet.devices.device import NVIDIA_DRIVER
from modelplane.kubelet.engines import launchers
from modelplane.kubelet.engines.llama_cpp import server
from modelplane.kubelet.logs import log_files
from modelplane.kubelet.logs.log_files import Selection
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods import http_check
from modelplane.kubelet.pods.http_check import Answer
from modelplane.kubelet.records import Attempt, Container, ContainerDirectory, Exit, PodRecord, Started
from modelplane.kubelet.refusals import Refusal
from modelplane.kubelet.runtime import environment, launch
from modelplane.kubelet.runtime.containers import container_arguments, container_refusals
from modelplane.kubelet.runtime.containers.cli import NEVER, Engine, EngineError, NoSuchObject
from modelplane.kubelet.runtime.containers.container_arguments import Contents
from modelplane.kubelet.runtime.containers.images import Pulls, full_name
from modelplane.kubelet.runtime.launch import NotYet
from modelplane.kubelet.runtime.protocol import Tell
from modelplane.kubelet.runtime.shim import timestamp
from modelplane.kubelet.volumes import volumes

UNAVAILABLE = "ContainerEngineUnavailable"

_ENDED = frozenset({"dead", "exited", "stopped"})
_START_FAILED = 128
_KILLED = 137
_NOTHING_VISIBLE = "void"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineContainers:
    """The runtime of one pod whose containers one engine runs."""

    machine: Machine
    record: PodRecord
    engine: Engine
    pulls: Pulls
    least_wait_s: float = 1.0
    """How long at least lies between two questions whether a container has ended."""
    kill_again_s: float = 10.0

    async def start(self, pod: Object, directory: ContainerDirectory, tell: Tell) -> Attempt:
        """Pull the image, create the container, start it."""
        for refusal in container_refusals.refusals(pod):
            raise NotYet(refusal)
        unfinished = directory.unfinished()
        try:
            if unfinished is not None and await self._has_run(unfinished):
                return unfinished
        except EngineError as error:
            # Nothing may be started before it is known what became of this one.
            raise NotYet(Refusal(UNAVAILABLE, f"{self.engine.name} does not answer: {error}")) from error
        try:
            with launch.missing_as_not_yet():
                image = await self.pulls.get(self.engine, pod, _remedy(pod), tell)
                contents = await self._contents(pod, image)
            for old in directory.superseded():
                await self.forget(old)
            await self._make_network()
            attempt = unfinished or directory.new_attempt()
            await self._run(attempt, pod, replace(contents, labels=self._labels(directory, attempt)), image)
        except (container_arguments.Unwritable, EngineError) as error:
            raise NotYet(Refusal("CreateContainerError", str(error))) from error
        return attempt

    async def _has_run(self, attempt: Attempt) -> bool:
        """Return True if the container of an unfinished attempt ran; one that did not is removed."""
        try:
            found = await self.engine.inspect(self._name(attempt))
        except NoSuchObject:
            return False
        if started := _started(found):
            attempt.record_start(started)
            return True
        # Without force, so that one that begins to run at this very moment stays.
        with suppress(NoSuchObject):
            await self.engine.do("rm", "--volumes", found["Id"])
        return False

    async def _contents(self, pod: Object, image: Mapping[str, Any]) -> Contents:
        container = pod["spec"]["containers"][0]
        allocated = await claims.devices_of(self.machine.client, pod, self.machine.devices)
        sources = await launch.sources_of(self.machine.client, pod, container, self.record.namespace)
        # In its own network the pod has the very address by which the API calls it.
        own = replace(self.record, address=addresses.reported(self.record.address))
        variables = environment.resolve(container, pod, own.address, node.ADDRESS, sources)
        mounted = await volumes.mounts_of(self.machine, pod, container, own, variables, sources)
        nvidia = [device for device in allocated if device.driver == NVIDIA_DRIVER]
        # Images of CUDA ask for every device, which an engine may be set up to give them.
        hidden = {} if nvidia else {"NVIDIA_VISIBLE_DEVICES": _NOTHING_VISIBLE}
        user = str((image.get("Config") or {}).get("User") or "")
        _check_user(pod["spec"], container, user)
        return Contents(
            labels={},
            address=own.address,
            environment={server.POD_ADDRESS_VARIABLE: own.address, **hidden, **variables},
            mounts=mounted,
            gpus=tuple(device.uuid for device in nvidia),
            memory_bytes=discovery.memory_bytes(),
            image_user=user,
            expanded=variables,
        )

    def _labels(self, directory: ContainerDirectory, attempt: Attempt) -> dict[str, str]:
        return {
            container_arguments.AGENT_LABEL: self.machine.directory.id,
            container_arguments.POD_LABEL: f"{self.record.namespace}/{self.record.name}",
            container_arguments.UID_LABEL: self.record.uid,
            container_arguments.CONTAINER_LABEL: directory.path.name,
            container_arguments.ATTEMPT_LABEL: str(attempt.number),
        }

    async def _make_network(self) -> None:
        if container_arguments.NETWORK in await self._networks():
            return
        self.machine.directory.note_network(self.engine.name)
        wanted = ("--subnet", container_arguments.SUBNET, "--gateway", container_arguments.GATEWAY)
        try:
            await self.engine.do("network", "create", *wanted, container_arguments.NETWORK)
        except EngineError as error:
            # Another pod's start may have been faster.
            if container_arguments.NETWORK not in await self._networks():
                raise EngineError(
                    f'cannot make the network "{container_arguments.NETWORK}" of pods, '
                    f"{container_arguments.SUBNET}: {error}: remove what has these addresses, which may be "
                    "another container engine's network of that name"
                ) from error

    async def _networks(self) -> list[str]:
        return (await self.engine.do("network", "ls", "--format", "{{.Name}}")).split()

    async def _run(self, attempt: Attempt, pod: Object, contents: Contents, image: Mapping[str, Any]) -> None:
        spec = pod["spec"]["containers"][0]
        called = container_arguments.name(self.record.uid, spec["name"], attempt.number)
        in_file = container_arguments.in_file(contents.environment)
        passed = {key: value for key, value in contents.environment.items() if key not in in_file}
        file = attempt.directory / "environment"
        text = container_arguments.lines(contents.environment)
        arguments = container_arguments.create(
            self.engine.kind, called, full_name(spec["image"]), pod, contents, str(file)
        )
        attempt.hand_over(Container(self.engine.name, called, spec["image"]))
        try:
            write_private(file, text)
            created = await self.engine.do(*arguments, variables=passed)
        finally:
            file.unlink(missing_ok=True)
        await self._start(attempt, created.split()[-1], _image_id(image))

    async def _start(self, attempt: Attempt, created: str, image_id: str) -> None:
        problem = ""
        try:
            await self.engine.do("start", created)
        except EngineError as error:
            problem = str(error)
        found = await self.engine.inspect(created)
        if started := _started(found):
            attempt.record_start(replace(started, image_id=image_id))
        elif problem:
            # The engine answers, and says that it did not get this far.
            code = found["State"].get("ExitCode") or _START_FAILED
            attempt.record_exit(_exit(code, reason="StartError", message=problem))
        else:
            raise EngineError(f"{self.engine.name} says neither that the container started nor why not")

    async def wait(self, attempt: Attempt) -> Exit:
        """Wait until the engine says that the container has ended, or that it has no such container."""
        silent = ""
        while (ended := attempt.exit) is None:
            began = time.monotonic()
            try:
                ended = await self._end(attempt)
                if ended is not None:
                    attempt.record_exit(ended)
                    break
                silent = ""
                await self.engine.wait(self._id(attempt))
            except EngineError as error:
                if str(error) != silent:
                    silent = str(error)
                    _log.warning(
                        'cannot learn of pod "%s" from %s: %s', self.record.name, self.engine.name, silent
                    )
            await asyncio.sleep(max(self.least_wait_s - (time.monotonic() - began), 0.0))
        attempt.settle()
        return ended

    async def _end(self, attempt: Attempt) -> Exit | None:
        try:
            state = (await self.engine.inspect(self._id(attempt)))["State"]
        except NoSuchObject:
            return _exit(_KILLED, message=f"{self.engine.name} no longer has the container", supervised=False)
        if state["Status"] not in _ENDED:
            return None
        killed = bool(state.get("OOMKilled"))
        message = "it used more memory than its limit" if killed else str(state.get("Error") or "")
        return Exit(
            int(state["ExitCode"]),
            0,
            str(state["FinishedAt"]),
            supervised=True,
            reason="OOMKilled" if killed else "",
            message=message,
        )

    async def terminate(self, attempt: Attempt) -> None:
        """Send what the image says that asks it to end."""
        started = attempt.started
        await self._send(attempt, (started.stop_signal if started else "") or "TERM")

    async def kill(self, attempt: Attempt) -> None:
        """Send SIGKILL, again and again until it has ended: the engine may be away for a while."""
        while attempt.exit is None:
            await self._send(attempt, "KILL")
            with suppress(TimeoutError):
                async with asyncio.timeout(self.kill_again_s):
                    await self.wait(attempt)

    async def _send(self, attempt: Attempt, signal: str) -> None:
        try:
            await self.engine.do("kill", "--signal", signal, self._id(attempt))
        except EngineError as error:
            # It may have ended by itself, which whoever waits for it learns.
            _log.debug('cannot send %s to pod "%s": %s', signal, self.record.name, error)

    async def ask(
        self, attempt: Attempt, handler: Mapping[str, Any], spec: Mapping[str, Any], timeout_s: float
    ) -> Answer:
        """Ask at the published address, or execute a command in the container."""
        if "exec" not in handler:
            return await http_check.ask(handler, spec, self.record.address, timeout_s, forwarded=True)
        command = handler["exec"].get("command", ())
        try:
            await self.engine.do("exec", self._id(attempt), *command, timeout_s=timeout_s)
        except EngineError as error:
            return Answer(False, f"the command failed: {error}")
        return Answer(True)

    async def log(
        self, attempt: Attempt, selection: Selection, *, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        """Have the engine print it."""
        left = selection.limit_bytes
        options = (
            *(("--timestamps",) if selection.timestamps else ()),
            *(("--follow",) if follow else ()),
            *(("--tail", str(selection.tail_lines)) if selection.tail_lines is not None else ()),
            *(("--since", selection.since) if selection.since else ()),
        )
        printed = self.engine.stream("logs", *options, self._id(attempt))
        async with contextlib.aclosing(printed):
            # What it says where it fails is printed too, and is all there is to show.
            with suppress(EngineError):
                async for data in printed:
                    yield data if left is None else data[:left]
                    if left is not None:
                        left -= len(data)
                        if left <= 0:
                            return

    async def last_words(self, attempt: Attempt) -> str:
        """Have the engine print the end of the log."""
        printed = self.engine.stream("logs", "--tail", str(log_files.ENDING_LINES), self._id(attempt))
        try:
            parts = [data async for data in printed]
        except EngineError:
            return ""  # they are the engine's words
        return log_files.shortened(b"".join(parts).rstrip(b"\n"))

    def container_id(self, attempt: Attempt) -> str:
        """Return the engine's id."""
        return f"{self.engine.kind.scheme}://{self._id(attempt)}"

    def image_id(self, attempt: Attempt) -> str:
        """Return the digest of the image, where it is known."""
        started = attempt.started
        return started.image_id if started else ""

    async def forget(self, attempt: Attempt) -> None:
        """Remove the container; raise ``EngineError`` where the engine does not say that it is gone."""
        if attempt.container is not None:
            with suppress(NoSuchObject):
                await self.engine.do("rm", "--force", "--volumes", self._name(attempt))

    def _name(self, attempt: Attempt) -> str:
        container = attempt.container
        return container.name if container else ""

    def _id(self, attempt: Attempt) -> str:
        started = attempt.started
        return started.id if started else self._name(attempt)


def _started(found: Mapping[str, Any]) -> Started | None:
    """Return what is to be remembered of a container that runs or has run."""
    at = str(found["State"].get("StartedAt") or "")
    if not at or at.startswith(NEVER):
        return None
    signal = (found.get("Config") or {}).get("StopSignal")
    return Started(str(found["Id"]), str(found.get("Image", "")), at, str(signal or ""))


def _exit(code: int, *, message: str, reason: str = "", supervised: bool = True) -> Exit:
    return Exit(code, 0, timestamp(time.time_ns()), supervised, reason, message)


def _image_id(image: Mapping[str, Any]) -> str:
    return str(next(iter(image.get("RepoDigests") or ()), image["Id"]))


def _remedy(pod: Mapping[str, Any]) -> str:
    """Return what else could run a pod whose image cannot be pulled."""
    engine = launchers.engine_of(pod["spec"]["containers"][0]["image"])
    return f"; with --container-engine none {engine} runs without a container" if engine else ""


def _check_user(pod: Mapping[str, Any], container: Mapping[str, Any], image_user: str) -> None:
    contexts = (pod.get("securityContext", {}), container.get("securityContext", {}))
    user = container_arguments.user(*contexts, image_user).partition(":")[0]
    if not any(context.get("runAsNonRoot") for context in contexts):
        return
    if contexts[1].get("runAsNonRoot") is not False and user in {"", "0", "root"}:
        raise NotYet(
            Refusal(
                "CreateContainerConfigError",
                "the container would run as root, which runAsNonRoot forbids: set runAsUser",
            )
        )
