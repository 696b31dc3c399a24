"""Locks of processes: a process holds its lock while it lives, and the kernel knows its pid.

A POSIX record lock (POSIX.1 fcntl, F_SETLK) is taken between fork and exec. It survives exec, is not
inherited by children, and is released at any kind of exit. So even after ``kill -9`` the lock tells whether
a process runs and its pid, and a second copy can never start.

A process loses its lock when it closes any descriptor of the lock file, so it must not open its own lock
twice.
"""

import fcntl
import os
import struct
from pathlib import Path

# struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("hhqqi4x")


def take(path: Path) -> int | None:
    """Lock a file for this process; return its descriptor, or None if another process holds it.

    The lock lasts over exec if the descriptor does: ``os.set_inheritable`` makes it.
    """
    try:
        return _lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def wait_for(path: Path) -> int:
    """Wait until a file can be locked for this process; return its descriptor."""
    return _lock(path, fcntl.LOCK_EX)


def _lock(path: Path, how: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def release(path: Path) -> None:
    """Release this process' lock on a file."""
    # To close any descriptor of the file releases the lock, also a new one.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def find_holder(path: Path) -> int | None:
    """Return the pid of the other process that holds a lock; None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    finally:
        os.close(descriptor)
    kind, _whence, _start, _length, pid = _FLOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else pid
