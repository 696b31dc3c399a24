"""The container engines that this machine may have, and which of them answers.

Docker, Podman and nerdctl read one command line; where they differ is in the table below. A program on
the path is not an engine yet: one is there when what it stands for answers.
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
"""How the time begins of what has not happened (Go's zero time)."""

_ANSWER_S = 10.0
_COMMAND_S = 120.0
_REMEMBERED_S = 10.0
_LONGEST_WAIT_S = 600
_TIMEOUT = "timeout"
_MISSING = re.compile(
    r"no such (container|image|network|object)\b|image not known|network (\S+ )?not found", re.IGNORECASE
)
"""That something else is missing, such as the engine's own socket, says nothing of these."""
_WORDS_BEFORE = ("Error response from daemon: ", "Error: ")
_BLOCK = 64 * 1024

_log = logging.getLogger(__name__)


class EngineError(Exception):
    """What a container engine said in place of doing something, or that it did not answer."""


class NoSuchObject(EngineError):
    """A container, an image or a network that the engine does not have."""


class Choice(StrEnum):
    """Which container engine an agent is to use."""

    AUTO = "auto"
    NONE = "none"
    DOCKER = "docker"
    PODMAN = "podman"
    NERDCTL = "nerdctl"


@dataclass(frozen=True, slots=True)
class Kind:
    """One engine's part of the table."""

    name: str
    """Its program."""
    scheme: str
    """What the API puts before the ids of its containers."""
    question: tuple[str, ...]
    """What only a working engine of this kind answers with success."""
    logging: tuple[str, ...]
    """The options of ``create`` that bound a container's log."""
    devices: Callable[[Sequence[str]], tuple[str, ...]]
    """Given uuids of NVIDIA GPUs, the options of ``create`` that give a container these and no others."""


def _gpus(uuids: Sequence[str]) -> tuple[str, ...]:
    # The value is read as CSV, so that a list of devices has to be quoted in it.
    return ("--gpus", f'"device={",".join(uuids)}"')


def _cdi(uuids: Sequence[str]) -> tuple[str, ...]:
    return tuple(part for uuid in uuids for part in ("--device", f"nvidia.com/gpu={uuid}"))


_JSON_FILE = ("--log-driver", "json-file", "--log-opt", "max-size=10m", "--log-opt", "max-file=2")

KINDS: Mapping[Choice, Kind] = {
    # The field tells Docker from Podman under the name of docker, whose GPUs are given in another way.
    Choice.DOCKER: Kind(
        "docker", "docker", ("version", "--format", "{{.Server.MinAPIVersion}}"), _JSON_FILE, _gpus
    ),
    # Podman has no server; it works where it can read its own storage.
    Choice.PODMAN: Kind(
        "podman",
        "podman",
        ("info", "--format", "{{.Version.Version}}"),
        ("--log-driver", "k8s-file", "--log-opt", "max-size=10mb"),
        _cdi,
    ),
    Choice.NERDCTL: Kind(
        "nerdctl", "containerd", ("info", "--format", "{{.ServerVersion}}"), _JSON_FILE, _gpus
    ),
}
"""In the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One container engine, by its command line."""

    kind: Kind

    @property
    def name(self) -> str:
        """What people call it."""
        return self.kind.name

    async def answers(self) -> bool:
        """Return True if it is there and works."""
        if shutil.which(self.name) is None:
            return False
        try:
            return bool((await self.do(*self.kind.question, timeout_s=_ANSWER_S)).strip())
        except EngineError:
            return False

    async def do(
        self,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        timeout_s: float = _COMMAND_S,
    ) -> str:
        """Return what a command prints; raise ``EngineError`` with what it says where it fails.

        Being cancelled ends the command, not what the engine has begun.
        """
        async with self._process((self.name, *arguments), variables, PIPE) as process:
            try:
                async with asyncio.timeout(timeout_s):
                    output, errors = await process.communicate()
            except TimeoutError:
                raise EngineError(f"{self.name} did not answer within {timeout_s:g} s") from None
        if process.returncode:
            raise failure(self.name, errors.decode(errors="replace"))
        return output.decode(errors="replace")

    async def stream(
        self, *arguments: str, variables: Mapping[str, str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield all that a command prints, as it comes; then raise ``EngineError`` where it fails."""
        ending = b""
        async with self._process((self.name, *arguments), variables, STDOUT) as process:
            if process.stdout is None:  # it is a pipe
                return
            while data := await process.stdout.read(_BLOCK):
                ending = (ending + data)[-_BLOCK:]
                yield data
            if await process.wait():
                raise failure(self.name, ending.decode(errors="replace"))

    async def wait(self, container: str) -> None:
        """Return when a container has ended, but after some minutes at the latest, or at once.

        Nothing else ends the command if this process is killed.
        """
        bounded = (_TIMEOUT, str(_LONGEST_WAIT_S)) if shutil.which(_TIMEOUT) else ()
        async with self._process((*bounded, self.name, "wait", container), None, DEVNULL) as process:
            await process.communicate()

    async def inspect(self, container: str) -> dict[str, Any]:
        """Return what the engine knows of a container; raise ``NoSuchObject`` where it has none."""
        return self._one(await self.do("container", "inspect", container))

    async def image(self, image: str) -> dict[str, Any]:
        """Return what the engine knows of an image; raise ``NoSuchObject`` where it does not have it."""
        return self._one(await self.do("image", "inspect", image))

    def _one(self, text: str) -> dict[str, Any]:
        try:
            found: list[dict[str, Any]] = json.loads(text)
        except ValueError as error:
            raise EngineError(f"cannot read the answer of {self.name}: {error}") from error
        if not found:
            raise NoSuchObject(f"{self.name} does not have it")
        return found[0]

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
                env=environment(variables or {}),
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"cannot run {self.name}: {error.strerror}") from error
        try:
            yield process
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an engine's program: this process's, and some variables."""
    # Its times are compared as text.
    return {**os.environ, **variables, "TZ": "UTC"}


def failure(name: str, said: str) -> EngineError:
    """Return the error for what an engine's program says when it fails."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    text = lines[-1] if lines else f"{name} failed and did not say why"
    # Docker adds a hint after what happened.
    text = next((line for line in lines if line.startswith(_WORDS_BEFORE)), text)
    for words in _WORDS_BEFORE:
        text = text.removeprefix(words)
    return (NoSuchObject if _MISSING.search(text) else EngineError)(text)


def engine_of(name: str) -> Engine:
    """Return the engine of a name that was recorded."""
    return Engine(KINDS[Choice(name)])


class Engines:
    """Which engine the pods of an agent are given, looked at again and again: one may be started later."""

    def __init__(self, choice: Choice = Choice.NONE, remembered_s: float = _REMEMBERED_S) -> None:
        """Look again for what was found longer ago than ``remembered_s``."""
        self.choice = choice
        self._remembered_s = remembered_s
        self._found: Engine | None = None
        self._looked_at = float("-inf")
        self._lock = asyncio.Lock()

    async def answering(self) -> Engine | None:
        """Return the first engine that is allowed and answers; None where there is none."""
        async with self._lock:
            if time.monotonic() - self._looked_at > self._remembered_s:
                found = await self._first()
                if found != self._found or self._looked_at == float("-inf"):
                    self._say(found)
                self._found, self._looked_at = found, time.monotonic()
            return self._found

    async def _first(self) -> Engine | None:
        allowed = {Choice.AUTO: tuple(KINDS), Choice.NONE: ()}.get(self.choice, (self.choice,))
        for kind in allowed:
            engine = Engine(KINDS[kind])
            if await engine.answers():
                return engine
        return None

    def _say(self, found: Engine | None) -> None:
        if self.choice is Choice.NONE:
            return
        if found is None:
            _log.info("no container engine answers (%s)", self.choice)
        else:
            _log.info("new pods run in containers of %s", found.name)
