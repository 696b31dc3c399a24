"""Program that becomes another one, which the kernel kills when the parent process ends, however it ends.

A helm process that outlived its controller would change a release beside the next controller. Run as a file,
with the pid of the parent, the program and its arguments.
"""

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` (linux/prctl.h); it outlasts execve(2)."""


def main() -> None:
    """Become the program, unless the parent is gone already."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL)) != 0:
        sys.exit("Error: cannot bind the process to its parent")
    if os.getppid() != parent:
        sys.exit("Error: the parent process is gone")
    os.execv(program[0], program)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
