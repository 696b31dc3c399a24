"""Supervisor process of one engine: starts it, writes its log, and records its exit.

No process runs before its record is on disk. The agent records this process and then releases it; this
process records the engine and then releases it. So after a kill at any moment, the files of an attempt name
every process that exists.

    shim.json    written by the agent: this process
    engine.json  the engine's process, and when it started
    exit.json    its exit; absent while it runs
    settled      written by the agent: nothing of it runs any more
    log          its output, each line after its time

It is run by path, isolated and without site packages, to stay small: standard library only.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

GO = b"g"
"""The byte that releases a process that waits for its record."""

TIMESTAMP_WIDTH = 30
"""Characters of ``2026-01-31T12:00:00.000000000Z``, which a space and the line follow."""

_LOG_BYTES = 10 * 1024 * 1024
_LINE_BYTES = 16 * 1024
_DRAIN_S = 1.0
_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


def read_identity(pid: int) -> str:
    """Return the identity of a process, which no later process of that pid has; empty if none runs.

    It is the boot and the tick at which the process started (proc(5), ``starttime``).
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        now = read_boot()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in {"Z", "X"} else f"{now}/{fields[18]}"


def read_boot() -> str:
    """Return the id of this boot of the machine (random(4), ``boot_id``)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def format_timestamp(nanoseconds: int) -> str:
    """Return a time since the epoch in RFC 3339, UTC, always equally wide."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


def write_record(path: Path, record: dict[str, object]) -> None:
    """Write a record in one step."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(json.dumps(record), encoding="utf-8")
    unfinished.replace(path)


class _Log:
    """A file of lines behind their times; past 10 MiB the older half is set aside as ``log.1``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()
        self._line = b""

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._file).st_size

    def take(self, data: bytes) -> None:
        """Add output; a line of more than 16 KiB is broken."""
        stamp = format_timestamp(time.time_ns()).encode()
        *lines, self._line = (self._line + data).split(b"\n")
        while len(self._line) > _LINE_BYTES:
            lines.append(self._line[:_LINE_BYTES])
            self._line = self._line[_LINE_BYTES:]
        self._write(b"".join(stamp + b" " + line + b"\n" for line in lines))

    def finish(self) -> None:
        """Write the last, unterminated line."""
        if self._line:
            self.take(b"\n")

    def _write(self, data: bytes) -> None:
        # A full disk loses log lines, but never stops the engine.
        try:
            if self._size and self._size + len(data) > _LOG_BYTES:
                self._path.replace(f"{self._path}.1")
                os.close(self._file)
                self._open()
            self._size += os.write(self._file, data)
        except OSError:
            return


def _start(gate: tuple[int, int], output: int, work_directory: str, command: list[str]) -> NoReturn:
    """Become the engine, in the child, once its record is on disk."""
    opened, closed = gate
    os.close(closed)
    if os.read(opened, 1) != GO:
        os._exit(_NOT_EXECUTABLE)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, *_ENDINGS):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(work_directory)
        os.execvp(command[0], command)  # noqa: S606 - a pod's command is run as it is given, without a shell
    except OSError as error:
        os.write(2, f"cannot start {command[0]!r}: {error.strerror}\n".encode())
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


def _supervise(directory: Path, work_directory: str, command: list[str]) -> None:
    output, written = os.pipe()
    gate = os.pipe()
    log = _Log(directory / "log")
    engine = os.fork()
    if engine == 0:
        _start(gate, written, work_directory, command)
    # Here and not in the child, which may be killed before it runs.
    os.setpgid(engine, engine)
    os.close(written)
    os.close(gate[0])
    for number in _ENDINGS:
        signal.signal(number, lambda *_: os.kill(engine, signal.SIGTERM))
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    started_at = format_timestamp(time.time_ns())
    write_record(
        directory / "engine.json", {"pid": engine, "identity": read_identity(engine), "startedAt": started_at}
    )
    # An engine that was killed before it is released has ended like any other.
    with contextlib.suppress(BrokenPipeError):
        os.write(gate[1], GO)
    _follow(engine, output, woken, log)
    # Once it is reaped, its pid may be reused, and there is nothing left to interrupt.
    for number in _ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(engine, 0)
    log.finish()
    code = os.waitstatus_to_exitcode(status)
    ended = {"exitCode": 128 - code, "signal": -code} if code < 0 else {"exitCode": code, "signal": 0}
    write_record(directory / "exit.json", {**ended, "finishedAt": format_timestamp(time.time_ns())})


def _follow(engine: int, output: int, woken: int, log: _Log) -> None:
    """Write the log until the engine has ended and its output is read."""
    poll = select.poll()
    poll.register(output, select.POLLIN)
    poll.register(woken, select.POLLIN)
    is_open, deadline = True, 0.0
    while True:
        left_s = deadline - time.monotonic() if deadline else 3600.0
        ready = {descriptor for descriptor, _ in poll.poll(max(left_s, 0.0) * 1000)}
        if woken in ready:
            os.read(woken, 4096)
        if output in ready:
            data = os.read(output, 65536)
            log.take(data)
            if not data:
                is_open = False
                poll.unregister(output)
        if not deadline and os.waitid(os.P_PID, engine, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            # Kill the rest of its group while the unreaped engine still holds the pid.
            os.killpg(engine, signal.SIGKILL)
            deadline = time.monotonic() + _DRAIN_S
        if deadline and (not is_open or time.monotonic() >= deadline):
            return


def main(arguments: list[str]) -> None:
    """Run ``ATTEMPT_DIRECTORY WORK_DIRECTORY COMMAND [ARGUMENT ...]`` when released on standard input."""
    directory, work_directory, *command = arguments
    if os.read(0, 1) == GO:
        _supervise(Path(directory), work_directory, command)


if __name__ == "__main__":
    main(sys.argv[1:])
