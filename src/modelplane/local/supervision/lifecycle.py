"""Start, stop and present state of a home's processes, from outside its supervisor.

A command may be killed at any moment: the next ``up`` or ``down`` completes what it began, because the state
is in locks and files, not in a process.
"""

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from modelplane.host import file_system
from modelplane.host.errors import LocalError
from modelplane.local import ports, settings
from modelplane.local.home import Home
from modelplane.local.supervision import locks, process_records
from modelplane.local.supervision.process_records import ProcessState, Record
from modelplane.local.supervision.processes import LEADER, STANDBY, build_supervisor_argv, build_table
from modelplane.local.supervision.supervisor import Supervisor

_ALIVE = frozenset({ProcessState.STARTING, ProcessState.RUNNING, ProcessState.STOPPING})
_POLL_S = 0.05
_HOPELESS_RESTARTS = 4


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process; ``pid`` 0 means none, ``since`` is in seconds of the epoch, 0 where unknown."""

    name: str
    state: str
    pid: int
    since: float
    restarts: int
    memory_bytes: int
    """Its proportional set size (PSS, proc(5)); 0 if it cannot be read."""
    last_exit: str


def find_leader(home: Home) -> int | None:
    """Return the pid of the supervisor that leads a home, if one does."""
    return locks.find_holder(home.lock(LEADER))


def is_supervised(home: Home) -> bool:
    """Return True if a home has a supervisor: a leader, or a standby about to lead."""
    return find_leader(home) is not None or locks.find_holder(home.lock(STANDBY)) is not None


def start(home: Home, binary: Path, only: Collection[str] = ()) -> bool:
    """Start a supervisor unless one leads already, and what was held; return whether one was started."""
    for held in home.run.glob(home.find_hold("*").name):
        held.unlink(missing_ok=True)
    if _tell_leader(home):
        return False
    home.down.unlink(missing_ok=True)
    pid = _spawn_supervisor(home, binary, only)
    deadline = time.monotonic() + 10.0
    while find_leader(home) is None:
        ended, _ = os.waitpid(pid, os.WNOHANG)
        if ended or time.monotonic() > deadline:
            raise LocalError(f"the supervisor did not start{_log_tail(home, LEADER)}")
        time.sleep(_POLL_S)
    # From now on the supervisor claims them.
    ports.release()
    _tell_leader(home)
    return True


def _spawn_supervisor(home: Home, binary: Path, only: Collection[str]) -> int:
    """Start a supervisor in a session of its own, away from the terminal; return its pid."""
    argv = build_supervisor_argv(home, binary, only)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(home.log(LEADER)), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    file_system.keep_private()
    return os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsid=True)


def is_running_as(home: Home, binary: Path) -> bool:
    """True if the leader was started as it would be now, by this version and with this binary."""
    pid = find_leader(home)
    try:
        actual = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return actual == b"".join(
        os.fsencode(argument) + b"\0" for argument in build_supervisor_argv(home, binary)
    )


async def wait_until_running(
    home: Home, names: Collection[str], timeout_s: float, report: Callable[[Record], None]
) -> None:
    """Wait until every named process is ready, reporting each as it gets there.

    Raises ``LocalError`` with the end of the log of one that keeps dying or takes too long.
    """
    waiting = list(names)
    before = {name: record.restarts for name in names if (record := process_records.read(home.record(name)))}
    deadline = time.monotonic() + timeout_s
    while waiting:
        for name in list(waiting):
            record = process_records.read(home.record(name))
            if record is None:
                continue
            if record.state is ProcessState.RUNNING and locks.find_holder(home.lock(name)) == record.pid:
                waiting.remove(name)
                report(record)
            elif record.restarts - min(before.get(name, 0), record.restarts) >= _HOPELESS_RESTARTS:
                raise LocalError(f"{name} keeps exiting ({record.last_exit}){_log_tail(home, name)}")
        if not is_supervised(home):
            raise LocalError(f"the supervisor exited{_log_tail(home, LEADER)}")
        if waiting and time.monotonic() > deadline:
            raise LocalError(f"{waiting[0]} is not ready after {timeout_s:g} s{_log_tail(home, waiting[0])}")
        await asyncio.sleep(_POLL_S)


def end_start(home: Home, names: Iterable[str]) -> None:
    """Tell servers of the control plane that the start is over: they return the memory that it needed.

    A server that does not know the signal ignores it.
    """
    for name in names:
        if pid := locks.find_holder(home.lock(name)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGWINCH)


def stop(home: Home, timeout_s: float = 90.0) -> tuple[str, ...]:
    """End every process of a home, its pods included; return the names of those that ran."""
    with hold_turn(home):
        return _stop(home, timeout_s)


def _stop(home: Home, timeout_s: float) -> tuple[str, ...]:
    processes = build_table(home, settings.load(home), Path())
    ran = tuple(
        name
        for name in (LEADER, *(process.name for process in processes))
        if locks.find_holder(home.lock(name)) is not None
    )
    home.down.touch()
    deadline = time.monotonic() + timeout_s
    # A standby that takes over now sees the file and continues to stop: ask the current leader.
    while (lock := locks.take(home.lock(LEADER))) is None:
        _end(find_leader(home), deadline)
        if time.monotonic() > deadline:
            raise LocalError(f"the supervisor did not stop within {timeout_s:g} s: see {home.log(LEADER)}")
    try:
        Supervisor(home, processes).stop()
        for record in home.run.glob("*.json"):
            record.unlink()
        home.down.unlink(missing_ok=True)
    finally:
        os.close(lock)
    return ran


def hold(home: Home, cluster: str, timeout_s: float = 90.0) -> tuple[str, ...]:
    """End the processes of one of several clusters until the next ``start``; return which of them ran.

    Raises ``LocalError`` where there is no such cluster, or nothing runs.
    """
    chosen = settings.load(home)
    if cluster not in chosen.clusters:
        names = ", ".join(chosen.clusters) or "no cluster that can be stopped on its own"
        raise LocalError(f'the fleet in {home.root} has no cluster "{cluster}": the clusters are {names}')
    processes_held = [
        process.name for process in build_table(home, chosen, Path()) if process.cluster == cluster
    ]
    with hold_turn(home):
        ran = tuple(name for name in processes_held if locks.find_holder(home.lock(name)) is not None)
        home.find_hold(cluster).touch()
        if not _tell_leader(home):
            raise LocalError(f"no processes are running in {home.root}: run `modelplane up` first")
        deadline = time.monotonic() + timeout_s
        while not all(_stopped(home, name) for name in processes_held):
            if time.monotonic() > deadline:
                raise LocalError(
                    f'cluster "{cluster}" did not stop within {timeout_s:g} s: see {home.log(LEADER)}'
                )
            time.sleep(_POLL_S)
    return ran


def find_busy(home: Home) -> str | None:
    """Return what the next command waits for; None if no other command holds the home."""
    if locks.find_holder(home.turn) is None:
        return None
    return f"Waiting for another `modelplane up` or `modelplane down` in {home.root}"


@contextmanager
def hold_turn(home: Home) -> Iterator[None]:
    """Hold a home exclusively: concurrent commands would misread each other's state.

    Meanwhile this process must not ask for the holder of the lock: closing a descriptor would release it.
    """
    lock = locks.wait_for(home.turn)
    try:
        yield
    finally:
        os.close(lock)


def list_held(home: Home, clusters: Iterable[str]) -> tuple[str, ...]:
    """Return those of the clusters that were stopped while the others go on."""
    return tuple(name for name in clusters if home.find_hold(name).exists())


def _stopped(home: Home, name: str) -> bool:
    record = process_records.read(home.record(name))
    is_recorded = record is None or record.state is ProcessState.STOPPED
    return is_recorded and locks.find_holder(home.lock(name)) is None


def _tell_leader(home: Home) -> bool:
    """Make the leading supervisor read its settings again; return False if there is none."""
    pid = find_leader(home)
    if pid is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGHUP)
    return True


def _end(pid: int | None, deadline: float) -> None:
    if pid is None:
        return
    with suppress(ProcessLookupError):
        pidfd = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))
        finally:
            os.close(pidfd)


def purge(home: Home) -> None:
    """Delete the contents of a home, and the home itself unless it holds other files."""
    if any(locks.find_holder(path) is not None for path in home.run.glob("*.lock")):
        raise LocalError(f"processes are still running in {home.root}: run `modelplane down` first")
    try:
        for directory in reversed(home.directories[1:]):
            file_system.remove_folder(directory)
    except OSError as error:
        raise LocalError(
            f'cannot delete "{error.filename}": {error.strerror}: delete it, and repeat the command'
        ) from error
    # The settings last: their existence marks a fleet.
    for path in home.files:
        path.unlink(missing_ok=True)
    with suppress(OSError):
        home.root.rmdir()


def _log_tail(home: Home, name: str) -> str:
    log = home.log(name)
    try:
        lines = log.read_text(errors="replace").splitlines()[-8:]
    except OSError:
        lines = []
    return "".join([f"; the end of {log}:", *(f"\n  {line}" for line in lines)])


def list_statuses(home: Home) -> tuple[ProcessStatus, ...]:
    """Return every process of a home, the supervisor first."""
    table = build_table(home, settings.load(home), Path())
    watched = is_supervised(home)
    return tuple(_status(home, name, watched) for name in (LEADER, *(process.name for process in table)))


def _status(home: Home, name: str, watched: bool) -> ProcessStatus:
    pid = locks.find_holder(home.lock(name)) or 0
    record = process_records.read(home.record(name))
    if record is None:
        return ProcessStatus(
            name, ProcessState.STARTING if pid else ProcessState.STOPPED, pid, 0.0, 0, measure_memory(pid), ""
        )
    state = record.state
    if pid and (pid != record.pid or state not in _ALIVE):
        state = ProcessState.STARTING  # the supervisor has not seen it yet
    elif not pid and (state in _ALIVE or not watched):
        state = ProcessState.STOPPED  # not seen by the supervisor yet, or there is no supervisor
    return ProcessStatus(
        name, state, pid, record.since, record.restarts, measure_memory(pid), record.last_exit
    )


def measure_memory(pid: int) -> int:
    """Return the proportional set size of a process in bytes; 0 where it cannot be read."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
