"""Processes that are not necessarily our children: told apart, signalled, waited for.

A process is never signaled by its pid alone, because pids are reused.
Each supervisor leads a session of its own, and the kernel gives no number again that a session
still carries, so whatever an engine left behind is found by its session.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from modelplane.kubelet.runtime.shim import read_boot, read_identity


@dataclass(frozen=True, slots=True)
class Process:
    """One process, told from a later one of the same number by its identity."""

    pid: int
    identity: str

    @property
    def alive(self) -> bool:
        """Return True if it still runs; one that has ended but is not reaped does not."""
        return read_identity(self.pid) == self.identity

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; False where it has ended."""
        if not self.alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    async def wait(self) -> None:
        """Return once it has ended, without spending time until then."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # Open before comparing: from here on the pid cannot be reused.
            if not self.alive:
                return
            ended = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(descriptor)
        finally:
            os.close(descriptor)
            reap(self.pid)


def reap(pid: int) -> None:
    """Take the exit status of a child that has ended, so that it does not stay a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def find_session(leader: Process) -> tuple[int, ...]:
    """Return the pids of a session that a process leads or led, except its own."""
    if not leader.identity.startswith(f"{read_boot()}/") or read_identity(leader.pid) not in {
        "",
        leader.identity,
    }:
        return ()  # the pid was reused, so the session has no process left
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == leader.pid:
            continue
        try:
            state, *fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if state not in {"Z", "X"} and int(fields[2]) == leader.pid:
            members.append(int(entry.name))
    return tuple(members)


def kill_session(leader: Process) -> None:
    """Kill the remaining processes of a session, except its leader."""
    killed: set[int] = set()
    # A killed process may have forked during the listing.
    while pids := set(find_session(leader)) - killed:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= pids


def wait_until_ended(processes: Iterable[Process], timeout_s: float) -> tuple[Process, ...]:
    """Block until all have ended; return those that have not after the timeout."""
    deadline = time.monotonic() + timeout_s
    left = tuple(processes)
    while True:
        for process in left:
            reap(process.pid)
        left = tuple(process for process in left if process.alive)
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(0.02)
