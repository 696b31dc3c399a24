"""Starting a process that outlives whoever starts it.

The child takes its lock before it becomes its program, so there is no moment
at which it runs and cannot be found. It leads a session of its own: a Ctrl-C
at the terminal reaches the supervisor alone.
"""

import os
import signal
from pathlib import Path
from typing import NoReturn

from modelplane.local import locks
from modelplane.local.home import Home
from modelplane.local.processes import Process

_LOG_BYTES = 10 * 1024 * 1024

NOT_EXECUTED = 127
ALREADY_RUNNING = 75
"""The exit status of a child that found its lock taken (sysexits.h, EX_TEMPFAIL)."""


def start(home: Home, process: Process) -> int:
    """Fork a process of the table and return its pid."""
    log = home.log(process.name)
    _rotate(log)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    environment = os.environ | process.environment
    pid = os.fork()
    if pid == 0:
        _become(home, process, environment, output)
    os.close(output)
    return pid


def _rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))


def _become(home: Home, process: Process, environment: dict[str, str], output: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        # Handlers are reset by exec; what Python ignores would stay ignored.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if locks.take(home.lock(process.name)) is None:
            os._exit(ALREADY_RUNNING)
        os.chdir(process.directory)
        os.execve(process.argv[0], process.argv, environment)  # noqa: S606 - no shell is wanted
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into its parent's code
        os.write(2, f"cannot start {process.argv[0]}: {error}\n".encode())
    os._exit(NOT_EXECUTED)
