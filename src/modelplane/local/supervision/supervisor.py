"""Supervisor: keeps every process of a local fleet running, and is itself kept running.

Two identical supervisors run. One holds the lock and leads; the other, the
standby, is a process in the leader's own table and waits for that lock, which
the kernel hands over the instant the leader dies. A new leader finds what runs
by the processes' locks and adopts it, so nothing is restarted by a take-over.

Nothing is polled while all is well: the deaths of processes arrive through
pidfds (pidfd_open(2)), signals through a pipe.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from modelplane.local import ports
from modelplane.local.home import Home
from modelplane.local.supervision import locks, process_records, spawn
from modelplane.local.supervision.process_records import ProcessState, Record
from modelplane.local.supervision.processes import LEADER, STANDBY, Process

_PROBE_EVERY_S = 0.05
_ALIVE = frozenset({ProcessState.STARTING, ProcessState.RUNNING, ProcessState.STOPPING})

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0

HEALTHY_AFTER_S = 30.0
"""A process that lived this long is forgiven its earlier deaths."""


@dataclass(slots=True)
class _Supervised:
    """One process and its state; times are of the monotonic clock."""

    process: Process
    state: ProcessState = ProcessState.STOPPED
    pid: int = 0
    pidfd: int = -1
    started: float = 0.0
    act_at: float = 0.0
    """Time of the next start of a process in back-off, or of the kill of one that stops."""
    failures: int = 0
    restarts: int = 0
    last_exit: str = ""

    @property
    def alive(self) -> bool:
        return self.state in _ALIVE


class Supervisor:
    """The leader of one home. Only the holder of the home's supervisor lock may make one."""

    def __init__(self, home: Home, table: Sequence[Process], claimed: Collection[int] = ()) -> None:
        self._home = home
        self._claimed = claimed
        self._all = {process.name: _Supervised(process) for process in table}
        self._poll = select.poll()
        self._by_pidfd: dict[int, _Supervised] = {}
        self._stopping = False
        self._asked = True
        self._held: frozenset[str] = frozenset()
        self._wakeup = -1

    def run(self) -> None:
        """Start or adopt everything and keep it running until a signal says stop; then stop it."""
        self._listen_for_signals()
        self._stopping = self._home.down.exists()
        for child in self._all.values():
            if not self._adopt(child):
                self._enter(child, ProcessState.WAITING)
        while not self._stopping:
            if self._asked:
                # Read which clusters are stopped while the others run, and claim the fleet's ports.
                self._asked = False
                # A process that restarts, soon or late, still finds its port free.
                for port in self._claimed:
                    with suppress(OSError):
                        ports.claim(port)
                clusters = {child.process.cluster for child in self._all.values()} - {""}
                self._held = frozenset(name for name in clusters if self._home.find_hold(name).exists())
            now = time.monotonic()
            for child in self._all.values():
                if child.process.cluster in self._held:
                    if child.alive:
                        self._advance_stop(child, now)
                    elif child.state is not ProcessState.STOPPED:
                        self._stopped(child)
                else:
                    self._advance(child, now)
            self._wait(self._next_deadline(now))
        self.stop()

    def stop(self) -> None:
        """End every process, dependants first; return when none is left."""
        self._stopping = True
        # A supervisor that takes over now continues to stop.
        with suppress(OSError):
            self._home.down.touch()
        for child in self._all.values():
            if not child.alive and not self._adopt(child):
                self._stopped(child)
        while any(child.alive for child in self._all.values()):
            now = time.monotonic()
            for child in self._all.values():
                self._advance_stop(child, now)
            deadlines = [child.act_at for child in self._all.values() if child.state is ProcessState.STOPPING]
            self._wait(max(0.0, min(deadlines, default=now) - now))

    # -- running

    def _advance(self, child: _Supervised, now: float) -> None:
        if child.state is ProcessState.STOPPED:  # its cluster was held
            self._enter(child, ProcessState.WAITING)
        if child.state is ProcessState.BACK_OFF and now >= child.act_at:
            self._enter(child, ProcessState.WAITING)
        if child.state is ProcessState.WAITING and self._dependencies_run(child.process):
            self._start(child)
        if child.state is ProcessState.STARTING and child.process.ready.is_ready(now - child.started):
            self._enter(child, ProcessState.RUNNING)

    def _dependencies_run(self, process: Process) -> bool:
        needed = (self._all[name] for name in process.after if name in self._all)
        return all(child.state is ProcessState.RUNNING for child in needed)

    def _next_deadline(self, now: float) -> float | None:
        """Return the seconds until something is due without an event; None for never."""
        timed = {ProcessState.BACK_OFF, ProcessState.STOPPING}
        waits = [child.act_at - now for child in self._all.values() if child.state in timed]
        waits += [_PROBE_EVERY_S for child in self._all.values() if child.state is ProcessState.STARTING]
        free = (child for child in self._all.values() if child.process.cluster not in self._held)
        startable = (child for child in free if child.state is ProcessState.WAITING)
        waits += [0.0 for child in startable if self._dependencies_run(child.process)]
        return max(0.0, min(waits)) if waits else None

    def _start(self, child: _Supervised) -> None:
        try:
            if not self._adopt(child):
                self._watch(child, spawn.start(self._home, child.process))
                self._enter(child, ProcessState.STARTING)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on and this one is tried again
            self._failed(child, 0.0, f"cannot be started: {error!r}")

    def _adopt(self, child: _Supervised) -> bool:
        """Take over a process that runs already, if it does."""
        lock = self._home.lock(child.process.name)
        pid = locks.find_holder(lock)
        if pid is None:
            return False
        try:
            self._watch(child, pid)
        except ProcessLookupError:
            return False
        if locks.find_holder(lock) != pid:  # it died, and the pid may be another's by now
            self._forget(child)
            return False
        _say(f"{child.process.name}: adopted, pid {pid}")
        record = process_records.read(self._home.record(child.process.name))
        if record is not None:
            child.restarts, child.last_exit = record.restarts, record.last_exit
        if record is not None and (record.pid, record.state) == (pid, ProcessState.RUNNING):
            child.state = ProcessState.RUNNING
        else:
            self._enter(child, ProcessState.STARTING)
        return True

    def _watch(self, child: _Supervised, pid: int) -> None:
        child.pidfd = os.pidfd_open(pid)
        child.pid = pid
        child.started = time.monotonic()
        self._by_pidfd[child.pidfd] = child
        self._poll.register(child.pidfd, select.POLLIN)

    def _forget(self, child: _Supervised) -> None:
        self._poll.unregister(child.pidfd)
        del self._by_pidfd[child.pidfd]
        os.close(child.pidfd)
        child.pid, child.pidfd = 0, -1

    def _ended(self, child: _Supervised) -> None:
        how = _how_it_ended(child.pidfd)
        self._forget(child)
        if child.state is ProcessState.STOPPING or self._stopping:
            child.last_exit = how
            self._stopped(child)
        else:
            self._failed(child, time.monotonic() - child.started, how)

    def _failed(self, child: _Supervised, lived_s: float, how: str) -> None:
        child.last_exit = how
        child.failures = count_failures(child.failures, lived_s)
        child.restarts += 1
        pause_s = compute_pause_s(child.failures)
        child.act_at = time.monotonic() + pause_s
        _say(f"{child.process.name}: {how}; restarting in {pause_s:g} s")
        self._enter(child, ProcessState.BACK_OFF)

    # -- stopping

    def _advance_stop(self, child: _Supervised, now: float) -> None:
        if child.state is ProcessState.STOPPING and now >= child.act_at:
            _say(
                f"{child.process.name}: still running after {child.process.grace_s:g} s; killing the process"
            )
            _send(child.pidfd, signal.SIGKILL)
            child.act_at = now + child.process.grace_s
        elif child.state in {ProcessState.STARTING, ProcessState.RUNNING} and not any(
            other.alive and child.process.name in other.process.after for other in self._all.values()
        ):
            _send(child.pidfd, signal.SIGTERM)
            child.act_at = now + child.process.grace_s
            self._enter(child, ProcessState.STOPPING)

    def _stopped(self, child: _Supervised) -> None:
        try:
            child.process.stopped()
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are still to be stopped
            _say(f"{child.process.name}: cannot clean up after it: {error!r}")
        self._enter(child, ProcessState.STOPPED)

    # -- events

    def _listen_for_signals(self) -> None:
        readable, writable = os.pipe()
        os.set_blocking(readable, False)
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, self._on_question)
        self._wakeup = readable
        self._poll.register(readable, select.POLLIN)

    def _on_question(self, _number: int, _frame: object) -> None:
        self._asked = True

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def _wait(self, timeout_s: float | None) -> None:
        """Sleep until an event or the time limit, and record the events."""
        milliseconds = None if timeout_s is None else timeout_s * 1000 + 1
        for descriptor, _ in self._poll.poll(milliseconds):
            if descriptor == self._wakeup:
                os.read(descriptor, 64)
            else:
                self._ended(self._by_pidfd[descriptor])

    def _enter(self, child: _Supervised, state: ProcessState) -> None:
        child.state = state
        record = Record(child.process.name, state, child.pid, time.time(), child.restarts, child.last_exit)
        # A full disk must not stop running processes.
        with suppress(OSError):
            process_records.write(self._home, record)


def supervise(home: Home, table: Sequence[Process], claimed: Collection[int] = ()) -> None:
    """Lead a home, or stand by until its leader dies, until it is stopped.

    ``claimed``: the ports that belong to the home. Returns at once where both places are taken.
    """
    os.umask(0o077)
    os.chdir(home.root)
    # A SIGHUP before the loop runs needs no answer: the loop begins with a look.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    lock = home.lock(LEADER)
    if locks.take(lock) is None:
        if locks.take(home.lock(STANDBY)) is None:
            _say("two supervisors run already")
            return
        locks.wait_for(lock)
    # The leader starts a standby, which takes this lock.
    locks.release(home.lock(STANDBY))
    led = _take_over(process_records.read(home.record(LEADER)))
    _record_leader(home, led)
    Supervisor(home, table, claimed).run()
    _record_leader(home, replace(led, state=ProcessState.STOPPED, pid=0, since=time.time()))


def _take_over(earlier: Record | None) -> Record:
    leader = Record(LEADER, ProcessState.RUNNING, os.getpid(), time.time())
    if earlier is None or earlier.state is not ProcessState.RUNNING:
        return leader
    _say(f"the leader, pid {earlier.pid}, died: taking over")
    return replace(leader, restarts=earlier.restarts + 1, last_exit="ended")


def _record_leader(home: Home, record: Record) -> None:
    with suppress(OSError):
        process_records.write(home, record)


def _how_it_ended(pidfd: int) -> str:
    try:
        result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        result = None
    if result is None:
        return "ended"  # it was started by an earlier leader: only its parent is told how
    if result.si_code == os.CLD_EXITED:
        return f"exited with status {result.si_status}"
    return f"killed by {signal.Signals(result.si_status).name}"


def _send(pidfd: int, number: signal.Signals) -> None:
    # An adopted process that has just ended is reported by its pidfd in a moment.
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def _say(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {text}\n")
        sys.stderr.flush()


def count_failures(failures: int, lived_s: float) -> int:
    """Return the deaths in a row that count, once a process has died again after ``lived_s`` seconds."""
    return 1 if lived_s >= HEALTHY_AFTER_S else failures + 1


def compute_pause_s(failures: int) -> float:
    """Return the seconds to wait after so many deaths in a row: 0.2 doubling up to 10."""
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures - 1, 16)))
