"""Records of the agent on disk: its only memory.

    DIR/pods/UID/pod.json                    the pod's name, and its address
    DIR/pods/UID/CONTAINER/NUMBER/           one attempt to run a container, by a process (see ``shim``)
                                             or by a container runtime (``container.json``, ``started.json``)
    DIR/pods/UID/.network/0/                 the container that holds its network (see ``pod_network``)
    DIR/pods/UID/.volumes/                   its volumes, and DIR/volumes/ those of claims (see ``volumes``)
    DIR/pause                                the program of the containers that hold networks
    DIR/networks/RUNTIME                     that a container runtime has a network for pods
    DIR/id                                   the id in the labels of this agent's containers

The number of a container's last attempt is its restart count.
"""

import contextlib
import json
import logging
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from modelplane.api.schema.decode import convert
from modelplane.host import file_system
from modelplane.host.file_system import write_private
from modelplane.kubelet.runtime.other_processes import Process
from modelplane.kubelet.runtime.shim import write_record

NETWORK = ".network"
"""The place of the container that holds a pod's network; no container of a pod can have its name."""

_ATTEMPTS_KEPT = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PodRecord:
    """The pod that a directory belongs to, and the address that the pod binds."""

    namespace: str
    name: str
    uid: str
    address: str


class Exit(msgspec.Struct, frozen=True, rename="camel"):
    """The exit of an attempt's process or container."""

    code: int = msgspec.field(name="exitCode")
    signal: int
    finished_at: str
    supervised: bool = True
    """True if its supervisor saw the exit; otherwise code and time are assumed, as of a kill just now."""
    reason: str = ""
    """CamelCase reason, such as OOMKilled; empty if the code says it all."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """The container of an attempt, recorded before the container runtime is asked to create it."""

    engine: str
    """The container runtime's name; the field keeps its name, which is a key of the file."""
    name: str
    image: str


@dataclass(frozen=True, slots=True)
class Started:
    """A started container, as its container runtime describes it."""

    id: str
    image_id: str
    at: str
    stop_signal: str = ""
    """Its stop signal; empty for SIGTERM."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to run a container, by its directory."""

    directory: Path

    @property
    def number(self) -> int:
        """The number of attempts before it."""
        return int(self.directory.name)

    @property
    def log(self) -> Path:
        """The file of its output."""
        return self.directory / "log"

    @property
    def shim(self) -> Process | None:
        """Its supervisor; None if it was never released."""
        return self._process("shim.json")

    @property
    def image(self) -> str:
        """The image that it runs or replaces; empty if not recorded."""
        record = _read(self.directory / "shim.json") or _read(self.directory / "container.json")
        return str(record.get("image", "")) if record else ""

    @property
    def container(self) -> Container | None:
        """Its container; None for a process."""
        record = _read(self.directory / "container.json")
        return Container(**record) if record else None

    def hand_over(self, container: Container) -> None:
        """Record the container that a container runtime will be asked for."""
        write_record(self.directory / "container.json", asdict(container))

    @property
    def started(self) -> Started | None:
        """Its started container; None until then, and for a process."""
        record = _read(self.directory / "started.json")
        return Started(**record) if record else None

    def record_start(self, started: Started) -> None:
        """Record that its container runs, or has run."""
        write_record(self.directory / "started.json", asdict(started))

    @property
    def begun(self) -> bool:
        """True if its supervisor was released, or its container is known to have started."""
        if self.container is None:
            return self.shim is not None
        return self.started is not None or self.exit is not None

    def release(self, supervisor: Process, image: str) -> None:
        """Record the supervisor of this attempt, which waits for that."""
        record: dict[str, object] = {"pid": supervisor.pid, "identity": supervisor.identity, "image": image}
        write_record(self.directory / "shim.json", record)

    @property
    def engine(self) -> Process | None:
        """Its engine; None until it starts."""
        return self._process("engine.json")

    def _process(self, file: str) -> Process | None:
        record = _read(self.directory / file)
        return Process(record["pid"], record["identity"]) if record else None

    @property
    def started_at(self) -> str:
        """The start time of its engine; empty until then."""
        if started := self.started:
            return started.at
        record = _read(self.directory / "engine.json")
        return str(record["startedAt"]) if record else ""

    @property
    def exit(self) -> Exit | None:
        """The exit of its engine; None until it is known."""
        record = _read(self.directory / "exit.json")
        return convert(record, Exit) if record else None

    def record_exit(self, ended: Exit) -> None:
        """Record an end that no supervisor saw."""
        write_record(self.directory / "exit.json", msgspec.to_builtins(ended))

    @property
    def settled(self) -> bool:
        """Return True if it has ended and was seen to have left nothing running."""
        return (self.directory / "settled").exists()

    def settle(self) -> None:
        """Record that nothing of it runs: from now on its numbers may be those of strangers."""
        # Its directory may have been removed with the pod.
        with contextlib.suppress(FileNotFoundError):
            (self.directory / "settled").touch(mode=0o600)

    @property
    def holds_network(self) -> bool:
        """Return True if its container holds the network of the others, and so must be the last to go."""
        return self.directory.parent.name == NETWORK

    @property
    def kept(self) -> bool:
        """Return True if its directory is still there."""
        return self.directory.is_dir()


@dataclass(frozen=True, slots=True)
class ContainerDirectory:
    """The attempts to run one container."""

    path: Path

    def list_attempts(self) -> tuple[Attempt, ...]:
        """Return the attempts that are kept, oldest first."""
        try:
            entries = [entry for entry in self.path.iterdir() if entry.name.isdecimal()]
        except FileNotFoundError:
            return ()
        return tuple(Attempt(entry) for entry in sorted(entries, key=lambda entry: int(entry.name)))

    def find_latest(self) -> Attempt | None:
        """Return the last attempt that counts."""
        return next((attempt for attempt in reversed(self.list_attempts()) if attempt.begun), None)

    def find_unfinished(self) -> Attempt | None:
        """Return the attempt whose container was asked for and is not known to have started."""
        last = next(reversed(self.list_attempts()), None)
        return last if last and last.container and not last.begun else None

    def list_superseded(self) -> tuple[Attempt, ...]:
        """Return the attempts that the next one makes forgotten."""
        last = self.find_latest()
        oldest_kept = last.number + 2 - _ATTEMPTS_KEPT if last else 0
        return tuple(attempt for attempt in self.list_attempts() if attempt.number < oldest_kept)

    def get_attempt(self, number: int) -> Attempt:
        """Return one attempt, which need not exist."""
        return Attempt(self.path / str(number))

    def make_attempt(self) -> Attempt:
        """Make the directory of the next attempt, and forget all but the last one before it."""
        last = self.find_latest()
        attempt = self.get_attempt(last.number + 1 if last else 0)
        # An attempt that was never released has nothing to keep.
        shutil.rmtree(attempt.directory, ignore_errors=True)
        attempt.directory.mkdir(parents=True, mode=0o700)
        for old in self.list_attempts()[:-_ATTEMPTS_KEPT]:
            shutil.rmtree(old.directory, ignore_errors=True)
        return attempt


@dataclass(frozen=True, slots=True)
class PodDirectory:
    """The directory of one pod."""

    path: Path

    @property
    def record(self) -> PodRecord | None:
        """The pod's record; None for a directory without one."""
        record = _read(self.path / "pod.json")
        return PodRecord(**record) if record else None

    def write(self, record: PodRecord) -> None:
        """Record which pod it is."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_record(self.path / "pod.json", asdict(record))

    def get_container(self, name: str) -> ContainerDirectory:
        """Return the directory of one of its containers."""
        return ContainerDirectory(self.path / name)

    @property
    def network(self) -> Attempt:
        """The container that holds the pod's network; nothing is recorded of it unless there is one."""
        return self.get_container(NETWORK).get_attempt(0)

    def list_attempts(self) -> Iterator[Attempt]:
        """Yield every attempt of every container, and the container that holds their network."""
        with contextlib.suppress(FileNotFoundError):
            for entry in self.path.iterdir():
                if entry.is_dir():
                    yield from ContainerDirectory(entry).list_attempts()

    def remove(self) -> None:
        """Forget the pod."""
        try:
            file_system.remove_folder(self.path)
        except OSError as error:
            # A container that ran as root may have left files of root's to an agent that is not root.
            _log.warning(
                '"%s" stays, because "%s" cannot be removed: %s; the next agent tries again',
                *(self.path, error.filename, error.strerror),
            )


@dataclass(frozen=True, slots=True)
class AgentDirectory:
    """The directory of one agent."""

    path: Path

    @property
    def pause(self) -> Path:
        """The program of the containers that hold the network of a pod."""
        return self.path / "pause"

    @property
    def id(self) -> str:
        """The id in the labels of this agent's containers; generated on first use."""
        path = self.path / "id"
        with contextlib.suppress(FileNotFoundError):
            if saved := path.read_text(encoding="ascii").strip():
                return saved
        made = uuid.uuid4().hex
        write_private(path, made)
        return made

    def record_network(self, runtime: str) -> None:
        """Record that a container runtime has a network for pods, before it is created."""
        path = self.path / "networks" / runtime
        path.parent.mkdir(exist_ok=True, mode=0o700)
        path.touch(mode=0o600)

    def list_networks(self) -> tuple[str, ...]:
        """Return the container runtimes that have one."""
        try:
            return tuple(sorted(entry.name for entry in (self.path / "networks").iterdir()))
        except FileNotFoundError:
            return ()

    def forget_network(self, runtime: str) -> None:
        """Take in that it is gone."""
        (self.path / "networks" / runtime).unlink(missing_ok=True)

    def get_pod(self, uid: str) -> PodDirectory:
        """Return the directory of one pod, which need not exist."""
        return PodDirectory(self.path / "pods" / uid)

    def list_pods(self) -> tuple[PodDirectory, ...]:
        """Return the directory of every pod."""
        try:
            return tuple(PodDirectory(entry) for entry in sorted((self.path / "pods").iterdir()))
        except FileNotFoundError:
            return ()


def _read(path: Path) -> dict[str, Any] | None:
    # A record is replaced in one step, but a power failure may leave it empty: nothing runs then.
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return record
