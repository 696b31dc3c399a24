"""Settings of a controller's process: its open files, its garbage collector, and the turns of its threads."""

import gc
import resource
import sys
from contextlib import suppress

_OPEN_FILES = 1 << 20


def allow_many() -> None:
    """Raise this process's limit of open files as far as the system lets it.

    Every watch is a connection, and each cluster has about ten. Systems start a process with a limit of 1,024
    open files for compatibility with old programs; a process may raise it far beyond that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        # Some systems name a limit that they do not grant.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def collect_seldom() -> None:
    """Look at young objects after more of them, and at all objects hardly ever.

    The copies of a large fleet are millions of objects that live for long and hold no cycles. With Python's
    default thresholds, a seventh of a controller's time went into traversing the copies, for up to a second
    at a time.
    """
    gc.set_threshold(20_000, 20, 100)


def take_short_turns() -> None:
    """Let a thread that computes give way to the event loop after half a millisecond.

    A placement computes in a thread of its own. When the event loop sends or receives, it gives up the
    interpreter, and may get it back only after a turn of that thread, 5 ms by default. With 200 busy
    connections beside a thread that computes, a loop does twice as many round trips with shorter turns, and
    its longest iteration takes half the time. The renewal of the lease waits for such iterations.
    """
    sys.setswitchinterval(0.0005)
