"""Run a command as a user without any power over the kernel, whoever runs this.

    ordinary_user.py NAMESPACES COMMAND [ARGUMENT ...]

It runs in a user namespace of its own, in which it may make that many further ones.
"""

import ctypes
import os
import sys
from pathlib import Path

USER = 1000


def become() -> None:
    """Make this process, which must have one thread, such a user once it executes a program."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) != 0:  # CLONE_NEWUSER
        raise OSError(ctypes.get_errno(), "this machine has no user namespaces to test with")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{USER} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{USER} {group} 1")


if __name__ == "__main__":
    namespaces, *command = sys.argv[1:]
    become()
    Path("/proc/sys/user/max_user_namespaces").write_text(namespaces)
    os.execvp(command[0], command)  # noqa: S606 - as it is given
