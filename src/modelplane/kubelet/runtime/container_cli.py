"""Container runtimes of this machine, by their command lines: Docker, Podman and nerdctl.

They share one command line, apart from the differences in ``RUNTIME_KINDS``. A program on the path is not
enough: a runtime is available when it answers.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NEVER = "0001-"
"""The beginning of Go's zero time, for events that have not happened."""

ENDED = frozenset({"dead", "exited", "stopped"})
"""The statuses of a container that has run and runs no more."""

_LONGEST_WAIT_S = 600
_TIMEOUT = "timeout"
_MISSING = re.compile(
    r"no such (container|image|network|object)\b|image not known|network (\S+ )?not found", re.IGNORECASE
)
"""Messages about a missing object, as opposed to a missing socket of the runtime, say."""
_WORDS_BEFORE = ("Error response from daemon: ", "Error: ")
_BLOCK = 64 * 1024

_log = logging.getLogger(__name__)


class ContainerRuntimeError(Exception):
    """A command of a container runtime that failed, or that it did not answer."""


class NoSuchObject(ContainerRuntimeError):
    """A container, an image or a network that the container runtime does not have."""


class Choice(StrEnum):
    """The container runtime that an agent is configured to use."""

    AUTO = "auto"
    NONE = "none"
    DOCKER = "docker"
    PODMAN = "podman"
    NERDCTL = "nerdctl"


@dataclass(frozen=True, slots=True)
class RuntimeKind:
    """Differences between the command lines of container runtimes."""

    name: str
    """Its program."""
    scheme: str
    """The prefix of its container ids in the API."""
    question: tuple[str, ...]
    """A command that succeeds only for a working runtime of this kind."""
    logging: tuple[str, ...]
    """Options of ``create`` that limit a container's log."""
    devices: Callable[[Sequence[str]], tuple[str, ...]]
    """Returns the options of ``create`` for the NVIDIA GPUs of these uuids and no others."""
    names_joined: bool = False
    """True if a container that joins another one's network needs a ``--hostname``, which others refuse."""


def _gpus(uuids: Sequence[str]) -> tuple[str, ...]:
    # The value is CSV, in which a list of devices must be quoted.
    return ("--gpus", f'"device={",".join(uuids)}"')


_JSON_FILE = ("--log-driver", "json-file", "--log-opt", "max-size=10m", "--log-opt", "max-file=2")

RUNTIME_KINDS: Mapping[Choice, RuntimeKind] = {
    # Podman installed as `docker` lacks this field; its option for GPUs differs.
    Choice.DOCKER: RuntimeKind(
        "docker", "docker", ("version", "--format", "{{.Server.MinAPIVersion}}"), _JSON_FILE, _gpus
    ),
    # Podman has no server; it works where it can read its own storage.
    Choice.PODMAN: RuntimeKind(
        "podman",
        "podman",
        ("info", "--format", "{{.Version.Version}}"),
        ("--log-driver", "k8s-file", "--log-opt", "max-size=10mb"),
        lambda uuids: tuple(part for uuid in uuids for part in ("--device", f"nvidia.com/gpu={uuid}")),
        names_joined=True,
    ),
    Choice.NERDCTL: RuntimeKind(
        "nerdctl", "containerd", ("info", "--format", "{{.ServerVersion}}"), _JSON_FILE, _gpus
    ),
}
"""In the order in which ``auto`` tries them."""


@dataclass(frozen=True, slots=True)
class ContainerRuntime:
    """One container runtime."""

    kind: RuntimeKind

    @property
    def name(self) -> str:
        """The name of its program."""
        return self.kind.name

    async def is_answering(self) -> bool:
        """Return True if it is installed and works."""
        if shutil.which(self.name) is None:
            return False
        try:
            return bool((await self.do(*self.kind.question, timeout_s=10.0)).strip())
        except ContainerRuntimeError:
            return False

    async def do(
        self,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
    ) -> str:
        """Run a command and return its output; raise ``ContainerRuntimeError`` with its message if it fails.

        Cancellation ends the command, not what the container runtime has begun.
        """
        async with self._process((self.name, *arguments), variables, PIPE) as process:
            try:
                async with asyncio.timeout(timeout_s):
                    output, errors = await process.communicate()
            except TimeoutError:
                raise ContainerRuntimeError(f"{self.name} did not answer within {timeout_s:g} s") from None
        if process.returncode:
            raise describe_failure(self.name, errors.decode(errors="replace"))
        return output.decode(errors="replace")

    async def stream(
        self, *arguments: str, variables: Mapping[str, str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Run a command and yield its output as it arrives; raise ``ContainerRuntimeError`` if it fails."""
        ending = b""
        async with self._process((self.name, *arguments), variables, STDOUT) as process:
            if process.stdout is None:  # it is a pipe
                return
            while data := await process.stdout.read(_BLOCK):
                ending = (ending + data)[-_BLOCK:]
                yield data
            if await process.wait():
                raise describe_failure(self.name, ending.decode(errors="replace"))

    async def wait(self, container: str) -> None:
        """Wait until a container has ended, or for some minutes; it may also return at once.

        The limit ends the command if this process is killed.
        """
        bounded = (_TIMEOUT, str(_LONGEST_WAIT_S)) if shutil.which(_TIMEOUT) else ()
        async with self._process((*bounded, self.name, "wait", container), None, DEVNULL) as process:
            await process.communicate()

    async def inspect(self, container: str) -> dict[str, Any]:
        """Return the description of a container; raise ``NoSuchObject``."""
        return self._one(await self.do("container", "inspect", container))

    async def find_image(self, image: str) -> dict[str, Any]:
        """Return the description of an image; raise ``NoSuchObject``."""
        return self._one(await self.do("image", "inspect", image))

    def _one(self, text: str) -> dict[str, Any]:
        try:
            described: list[dict[str, Any]] = json.loads(text)
        except ValueError as error:
            raise ContainerRuntimeError(f"cannot read the answer of {self.name}: {error}") from error
        if not described:
            raise NoSuchObject(f"{self.name} does not have it")
        return described[0]

    @contextlib.asynccontextmanager
    async def _process(
        self, command: Sequence[str], variables: Mapping[str, str] | None, errors: int
    ) -> AsyncIterator[Process]:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=errors,
                env=build_environment(variables or {}),
                start_new_session=True,
            )
        except OSError as error:
            raise ContainerRuntimeError(f"cannot run {self.name}: {error.strerror}") from error
        except ValueError as error:  # an argument has a null character
            raise ContainerRuntimeError(f"cannot run {self.name}: {error}") from error
        try:
            yield process
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


def build_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a container runtime's program: this process's, and some variables."""
    # Its times are compared as text.
    return {**os.environ, **variables, "TZ": "UTC"}


def describe_failure(name: str, output: str) -> ContainerRuntimeError:
    """Return the error for the output of a command that failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    text = lines[-1] if lines else f"{name} failed without a reason"
    # Docker adds a hint after what happened.
    text = next((line for line in lines if line.startswith(_WORDS_BEFORE)), text)
    for words in _WORDS_BEFORE:
        text = text.removeprefix(words)
    return (NoSuchObject if _MISSING.search(text) else ContainerRuntimeError)(text)


def find_runtime(name: str) -> ContainerRuntime:
    """Return the container runtime of a recorded name."""
    return ContainerRuntime(RUNTIME_KINDS[Choice(name)])


class ContainerRuntimes:
    """The container runtime for new pods, looked up again and again because one may start later."""

    def __init__(self, choice: Choice = Choice.NONE, remembered_s: float = 10.0) -> None:
        """Remember the runtime that was found for ``remembered_s`` seconds."""
        self.choice = choice
        self._remembered_s = remembered_s
        self._found: ContainerRuntime | None = None
        self._looked_at = float("-inf")
        self._lock = asyncio.Lock()

    async def find_answering(self) -> ContainerRuntime | None:
        """Return the first allowed container runtime that answers; None if none does."""
        async with self._lock:
            if time.monotonic() - self._looked_at > self._remembered_s:
                runtime = await self._first()
                if runtime != self._found or self._looked_at == float("-inf"):
                    self._say(runtime)
                self._found, self._looked_at = runtime, time.monotonic()
            return self._found

    async def _first(self) -> ContainerRuntime | None:
        allowed = {Choice.AUTO: tuple(RUNTIME_KINDS), Choice.NONE: ()}.get(self.choice, (self.choice,))
        for kind in allowed:
            runtime = ContainerRuntime(RUNTIME_KINDS[kind])
            if await runtime.is_answering():
                return runtime
        return None

    def _say(self, runtime: ContainerRuntime | None) -> None:
        if self.choice is Choice.NONE:
            return
        if runtime is None:
            _log.info("no container runtime answers (%s)", self.choice)
        else:
            _log.info("new pods run in containers of %s", runtime.name)
