"""Start of a process that outlives its parent.

The child takes its lock before it executes its program, so a running process can always be found. It leads
its own session: Ctrl-C at the terminal reaches the supervisor alone.
"""

import os
import signal
from contextlib import suppress
from typing import NoReturn

from modelplane.host import file_system
from modelplane.local.home import Home
from modelplane.local.supervision import locks
from modelplane.local.supervision.processes import Process

_LOG_BYTES = 10 * 1024 * 1024
_HANDLED = (signal.SIGTERM, signal.SIGINT)

_KEPT = {"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"}

NOT_EXECUTED = 127
ALREADY_RUNNING = 75
"""The exit status of a child that found its lock taken (sysexits.h, EX_TEMPFAIL)."""


def start(home: Home, process: Process) -> int:
    """Fork a process of the table and return its pid."""
    log = home.log(process.name)
    if log.exists() and log.stat().st_size > _LOG_BYTES:
        log.replace(home.find_earlier_log(process.name))
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    kept = _KEPT & os.environ.keys() if process.own_environment else os.environ.keys()
    environment = {name: os.environ[name] for name in kept} | dict(process.environment)
    # A signal between fork and exec would be handled by this process' handler and then lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    try:
        pid = os.fork()
        if pid == 0:
            _become(home, process, environment, output)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(output)
    return pid


def _become(home: Home, process: Process, environment: dict[str, str], output: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        # Signals that Python ignores would stay ignored; those that it handles would not end the child yet.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, *_HANDLED):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        os.setsid()
        file_system.keep_private()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        lock = locks.take(home.lock(process.name))
        if lock is None:
            os._exit(ALREADY_RUNNING)
        os.set_inheritable(lock, True)
        os.chdir(process.directory)
        os.execve(process.argv[0], process.argv, environment)  # noqa: S606 - no shell is wanted
    except BaseException as error:  # noqa: BLE001 - a forked child must never return into its parent's code
        with suppress(BaseException):
            os.write(2, os.fsencode(f"cannot start {process.argv[0]}: {error}\n"))
    finally:
        os._exit(NOT_EXECUTED)
