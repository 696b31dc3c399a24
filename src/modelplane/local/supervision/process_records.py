"""The supervisor's last record of each process, for ``modelplane status``.

One JSON file per process, replaced in one step at each change. A record
describes; whether the process lives is answered by its lock.
"""

import errno
import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from modelplane.host.file_system import write_private
from modelplane.local.home import Home


class ProcessState(StrEnum):
    """State of a process."""

    WAITING = "Waiting"
    """For another process to be ready."""
    STARTING = "Starting"
    """Alive; its readiness check does not pass yet."""
    RUNNING = "Running"
    BACK_OFF = "BackOff"
    """Died; started again after a pause."""
    STOPPING = "Stopping"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True)
class Record:
    """One process at its last change. ``since`` is in seconds of the epoch; ``pid`` 0 means none."""

    name: str
    state: ProcessState
    pid: int
    since: float
    restarts: int = 0
    last_exit: str = ""


def write(home: Home, record: Record) -> None:
    """Save the record of a process."""
    path, text = home.record(record.name), json.dumps(asdict(record))
    try:
        write_private(path, text)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        # Overwriting needs no disk space; a concurrent reader may find no record.
        file = os.open(path, os.O_WRONLY)
        try:
            os.ftruncate(file, os.pwrite(file, text.encode(), 0))
        finally:
            os.close(file)


def read(path: Path) -> Record | None:
    """Return a saved record; None if there is none, or it cannot be read."""
    try:
        fields = json.loads(path.read_text())
        return Record(**(fields | {"state": ProcessState(fields["state"])}))
    except (OSError, ValueError, KeyError, TypeError):
        return None
