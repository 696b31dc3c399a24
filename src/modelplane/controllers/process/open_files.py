"""Limit of open files of a controller.

Every watch is a connection, and each cluster has about ten. Systems start a process with a limit of 1,024
open files for compatibility with old programs; a process may raise it far beyond that.
"""

import resource
from contextlib import suppress

_ENOUGH = 1 << 20


def allow_many() -> None:
    """Raise this process's limit of open files as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < most:
        # Some systems name a limit that they do not grant.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
