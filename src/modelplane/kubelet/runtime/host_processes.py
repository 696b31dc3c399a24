"""Containers of pods as processes of this machine, each started by the launcher of its image.

An attempt has ended when its record says so; no process of it runs any more then.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.kube.resources import Object
from modelplane.kubelet import log_files
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason
from modelplane.kubelet.engines import launchers
from modelplane.kubelet.log_files import Selection
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods import probes
from modelplane.kubelet.pods.probes import Answer
from modelplane.kubelet.records import Attempt, ContainerDirectory, Exit, PodRecord
from modelplane.kubelet.runtime import other_processes, shim
from modelplane.kubelet.runtime.launch import Launch, prepare
from modelplane.kubelet.runtime.other_processes import Process
from modelplane.kubelet.runtime.protocol import Tell

_KILLED = 128 + signal.SIGKILL
_START_S = 30.0


@dataclass(frozen=True, slots=True)
class HostProcesses:
    """The runtime that needs no container runtime, for one container of a pod."""

    machine: Machine
    record: PodRecord
    name: str = ""
    """The container's part of its ids; empty for the first main container."""

    async def start(self, pod: Object, directory: ContainerDirectory, _tell: Tell) -> Attempt:
        """Start the program that stands in for the pod's image."""
        return await start_attempt(directory, await prepare(self.machine, pod, self.record))

    async def wait(self, attempt: Attempt) -> Exit:
        """Wait for the attempt's supervisor, which outlives its engine."""
        return await wait_for_exit(attempt)

    async def terminate(self, attempt: Attempt) -> None:
        """Send SIGTERM."""
        terminate_attempt(attempt)

    async def kill(self, attempt: Attempt) -> None:
        """Send SIGKILL to the engine's whole session."""
        await kill_for_certain(attempt)

    async def ask(
        self, _attempt: Attempt, handler: Mapping[str, Any], spec: Mapping[str, Any], timeout_s: float
    ) -> Answer:
        """Ask at the address that the pod binds."""
        return await probes.ask(handler, spec, self.record.address, timeout_s)

    def log(self, attempt: Attempt, selection: Selection, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """Read the file that the supervisor writes."""
        # The record of its exit is removed with a pod that is deleted meanwhile.
        ended = (lambda: attempt.exit is not None or not attempt.kept) if follow else None
        return log_files.read(attempt.log, selection, ended)

    async def read_termination_message(self, attempt: Attempt) -> str | None:
        """Read the end of that file."""
        return log_files.read_end(attempt.log)

    def get_container_id(self, attempt: Attempt) -> str:
        """Return a name that no container runtime gives."""
        return "/".join(("process:/", self.record.uid, *filter(None, [self.name]), str(attempt.number)))

    def get_image_id(self, attempt: Attempt) -> str:
        """Return the engine that stands in for the image."""
        engine = launchers.find_engine(attempt.image)
        return f"process://{engine}" if engine else ""

    async def forget(self, _attempt: Attempt) -> None:
        """Do nothing: all that is kept is in the attempt's directory."""


async def start_attempt(container: ContainerDirectory, launch: Launch) -> Attempt:
    """Start the next attempt and return once its engine has started, or has failed to.

    Raises ``CannotStart`` if the operating system does not start its supervisor.
    """
    attempt = container.make_attempt()
    supervisor = _spawn(attempt, container.path, launch)
    deadline = time.monotonic() + _START_S
    while not attempt.started_at and supervisor.alive:
        if time.monotonic() > deadline:
            supervisor.send(signal.SIGKILL)
        await asyncio.sleep(0.01)
    return attempt


def _spawn(attempt: Attempt, work_directory: Path, launch: Launch) -> Process:
    gate, opening = os.pipe()
    errors = str(attempt.directory / "shim.log")
    pid = 0
    try:
        pid = os.posix_spawn(
            sys.executable,
            # Isolated and without site packages: small, and independent of the pod's variables.
            [
                sys.executable,
                "-I",
                "-S",
                shim.__file__,
                str(attempt.directory),
                str(work_directory),
                *launch.command,
            ],
            dict(launch.environment),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, gate, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, errors, os.O_WRONLY | os.O_CREAT, 0o600),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM),
        )
        supervisor = Process(pid, shim.read_identity(pid))
        attempt.release(supervisor, launch.image)
        os.write(opening, shim.GO)
    except (OSError, ValueError) as error:
        if pid:  # it waits for a word that will not come
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        fault = f"cannot start a process: {error}"
        raise CannotStart(Rejected(WaitingReason.CREATE_ERROR, detail=fault)) from error
    finally:
        os.close(gate)
        os.close(opening)
    return supervisor


async def wait_for_exit(attempt: Attempt) -> Exit:
    """Wait for the exit of an attempt and return it; kill processes that an unsupervised exit left."""
    supervisor = attempt.shim
    if supervisor is not None:
        await supervisor.wait()
    return _settle(attempt)


def terminate_attempt(attempt: Attempt) -> None:
    """Ask an engine to end; one that has not started yet does not start."""
    if process := attempt.engine or attempt.shim:
        process.send(signal.SIGTERM)


def kill_attempt(attempt: Attempt) -> None:
    """Kill an engine with all that it started; its supervisor lives to record it."""
    if supervisor := attempt.shim:
        other_processes.kill_session(supervisor)


async def kill_for_certain(attempt: Attempt, record_s: float = 5.0) -> None:
    """Kill an engine, and its supervisor too if that does not record the end in time."""
    kill_attempt(attempt)
    try:
        async with asyncio.timeout(record_s):
            await wait_for_exit(attempt)
    except TimeoutError:
        if supervisor := attempt.shim:
            supervisor.send(signal.SIGKILL)


def _settle(attempt: Attempt) -> Exit:
    """Return the recorded end of an attempt whose supervisor is gone, recording one if it could not."""
    if not attempt.settled:
        kill_attempt(attempt)
    ended = attempt.exit
    if ended is None:
        ended = Exit(_KILLED, int(signal.SIGKILL), shim.format_timestamp(time.time_ns()), supervised=False)
        attempt.record_exit(ended)
    attempt.settle()
    return ended


def stop_attempts(attempts: Iterable[Attempt], grace_s: float) -> None:
    """Block until attempts have ended: SIGTERM, then SIGKILL after ``grace_s`` seconds.

    For when there is no event loop and no API server: the end of everything. Raises the first ``OSError`` of
    those that kept an end from being recorded, once all have ended.
    """
    running = {attempt.shim: attempt for attempt in attempts if not attempt.settled}
    supervisors = [supervisor for supervisor in running if supervisor is not None]
    for attempt in running.values():
        terminate_attempt(attempt)
    for supervisor in other_processes.wait_until_ended(supervisors, grace_s):
        kill_attempt(running[supervisor])
    for supervisor in other_processes.wait_until_ended(supervisors, _START_S):
        supervisor.send(signal.SIGKILL)
    unrecorded = []
    for attempt in running.values():
        if attempt.shim is not None:
            try:
                _settle(attempt)
            except OSError as error:
                unrecorded.append(error)
    if unrecorded:
        raise unrecorded[0]
