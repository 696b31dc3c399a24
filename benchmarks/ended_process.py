"""A process of a benchmark that ended too early: its exit status, and the end of its log."""

import shutil
import tempfile
from pathlib import Path

import psutil

_LINES = 40
_MOST_BYTES = 64 << 10


def check(name: str, pid: int, folder: Path) -> None:
    """End the benchmark if a process has ended; print the end of its log, and keep the log."""
    try:
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return
        status = f"with status {process.wait(5)}"
    except psutil.NoSuchProcess:
        status = "and is gone"
    log = next(folder.rglob(f"{name}.log"), None)
    if log is None:
        raise SystemExit(f"{name} has ended {status}, without a log")
    kept = Path(tempfile.gettempdir()) / f"modelplane-bench-{name}.log"
    shutil.copyfile(log, kept)
    raise SystemExit(f"{name} has ended {status}; its log is in {kept}, and ends with:\n{_tail(log)}")


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _MOST_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-_LINES:])
