"""The directory of the Envoy on this machine: the files that it reads, its usage records, and their rotation.

Each file that Envoy reads is replaced atomically, in an order in which no file refers to a resource that does
not exist yet. If Envoy rejects a file, it keeps its configuration; ``admin.find_reload_problem`` tells.

Envoy appends records to one file. A long one is renamed, and Envoy asked to open the path again: until it
does, it writes to the renamed file, so no line is lost, whichever process ends in between. Renamed files are
numbered and do not change once Envoy has left them; the oldest are deleted.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from modelplane.gateway.envoy.envoy_files import plan_transition, select_listeners
from modelplane.gateway.envoy.envoy_names import CLUSTERS, LISTENERS, MUTUAL_TLS, WITH_MODULE
from modelplane.gateway.envoy.module_filters import PRIVATE
from modelplane.gateway.usage.usage_sums import MOST_LINE_BYTES
from modelplane.host.errors import LocalError
from modelplane.host.file_system import write_private
from modelplane.proxy import admin, module

_ORDER = {CLUSTERS: 0, LISTENERS: 2, WITH_MODULE: 2}
_log = logging.getLogger(__name__)
USAGE_LOG = "usage/usage.jsonl"
"""File that Envoy appends to, from its directory."""

MOST_BYTES = 64 << 20
"""Length from which a file is rotated."""

KEPT = 8
"""Number of rotated files that are kept."""

_DIGITS = 8


def write(directory: Path, files: Mapping[str, str]) -> bool:
    """Write the files that ``envoy_files.render_files`` returns to a directory; return True if any changed.

    Of the listeners, those are written that are for the module that the Envoy of the directory runs.
    A cluster that routes leave in this call stays until the next call, so after True a second call,
    a moment later, removes it.
    """
    prepare(directory)  # Envoy refuses a listener whose log it cannot open
    current = _current(directory)
    own = select_listeners(files, has_new_module=module.is_new(directory))
    desired = plan_transition(own, current)
    # None refers to a later one: secrets, clusters, routes, listeners.
    changed = sorted(
        (path for path in desired if current.get(path) != desired[path]),
        key=lambda path: (-1 if path.startswith((PRIVATE, MUTUAL_TLS)) else _ORDER.get(path, 1), path),
    )
    for path in changed:
        (directory / path).parent.mkdir(mode=0o700, exist_ok=True)
        write_private(directory / path, desired[path])
    gone = current.keys() - desired.keys()
    for path in gone:
        (directory / path).unlink(missing_ok=True)
    return bool(changed or gone)


def _current(directory: Path) -> dict[str, str]:
    """Return the current files, by their path from the directory, also those of earlier versions."""
    paths = (*(directory / path for path in _ORDER), *directory.glob("*/*.json"))
    return {
        path.relative_to(directory).as_posix(): path.read_text(errors="replace")
        for path in paths
        if path.is_file()
    }


def prepare(directory: Path) -> None:
    """Create the file that Envoy appends to, if it is missing, for its owner only."""
    path = directory / USAGE_LOG
    path.parent.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))


def end_line(directory: Path) -> None:
    """End a line that a crash of Envoy has cut off, so that the next record is not part of it.

    Envoy must not run.
    """
    with (directory / USAGE_LOG).open("rb+") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def read_lines(directory: Path) -> Iterator[bytes]:
    """Yield the lines of all files, the oldest first; of a line that is too long for a record, the begin.

    Raises ``FileNotFoundError`` if there is no file.
    """
    with ExitStack() as opened:
        files: dict[int, BinaryIO] = {}

        def add(path: Path) -> None:
            with suppress(FileNotFoundError):
                file = opened.enter_context(path.open("rb"))
                files.setdefault(os.fstat(file.fileno()).st_ino, file)

        # The current file first: if it is rotated now, it is among the others too, and read once.
        add(directory / USAGE_LOG)
        for path in reversed(list_rotated(directory)):
            add(path)
        if not files:
            raise FileNotFoundError(directory / USAGE_LOG)
        for file in reversed(files.values()):
            while line := file.readline(MOST_LINE_BYTES + 1):
                yield line
                while len(line) > MOST_LINE_BYTES and not line.endswith(b"\n"):
                    line = file.readline(MOST_LINE_BYTES + 1)


def list_rotated(directory: Path) -> list[Path]:
    """Return the rotated files, the oldest first."""
    current = directory / USAGE_LOG
    return sorted(current.parent.glob(f"{current.stem}.{'[0-9]' * _DIGITS}{current.suffix}"))


class Rotation:
    """Rotation of one Envoy's file. One process has it."""

    def __init__(self, directory: Path, most_bytes: int = MOST_BYTES, kept: int = KEPT) -> None:
        self._directory = directory
        self._current = directory / USAGE_LOG
        self._most_bytes = most_bytes
        self._kept = kept
        # The process before may have ended between a rename and the request.
        self._reopen = True
        self._problem = ""

    async def run(self) -> None:
        """Rotate the file whenever it is long, until cancelled."""
        while True:
            await asyncio.to_thread(self._try)
            await asyncio.sleep(5.0)

    def _try(self) -> None:
        try:
            self.look()
        except OSError as error:
            problem = f"cannot rotate {self._current}; trying again: {error}"
            if problem != self._problem:
                _log.warning("%s", problem)
            self._problem = problem
        else:
            self._problem = ""

    def look(self) -> None:
        """Rotate the file if it is long, delete what is too old, and have Envoy open the path again."""
        if not self._current.exists():
            self._begin()
        elif self._current.stat().st_size >= self._most_bytes:
            self._current.rename(self._next())
            self._begin()
        for path in list_rotated(self._directory)[: -self._kept]:
            path.unlink(missing_ok=True)
        if self._reopen:
            # Without an answer Envoy does not run, or is busy.
            with suppress(LocalError):
                admin.reopen_logs(self._directory)
                self._reopen = False

    def _begin(self) -> None:
        self._reopen = True
        prepare(self._directory)

    def _next(self) -> Path:
        last = list_rotated(self._directory)[-1:]
        number = 1 + (int(last[0].suffixes[-2][1:]) if last else 0)
        return self._current.with_suffix(f".{number:0{_DIGITS}}{self._current.suffix}")


@asynccontextmanager
async def rotate(directory: Path) -> AsyncIterator[None]:
    """Rotate the file of an Envoy inside the block."""
    task = asyncio.create_task(Rotation(directory).run(), name="usage rotation")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
