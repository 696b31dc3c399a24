"""Free space on the disk of a fleet's data.

An existing fleet needs far less than a new one, so that its processes can be started again.
"""

import shutil

from modelplane.local.home import Home

_NEW_BYTES = 1 << 30
"""Models, logs, and all that etcd sets aside before anything is in it."""

_KNOWN_BYTES = 128 << 20
"""Preallocated by etcd when its write-ahead log is full, and as much again for logs and records."""


def problem(home: Home) -> str:
    """Return that the disk has too little space, and the remedy; empty if it has enough.

    Raise ``OSError`` if that cannot be read.
    """
    needed = _KNOWN_BYTES if home.settings.exists() else _NEW_BYTES
    free = shutil.disk_usage(home.root).free
    if free >= needed:
        return ""
    return (
        f"only {free >> 20} MiB are free where {home.root} is, and "
        f"{'its' if home.settings.exists() else 'a'} fleet needs {needed >> 20}: make room"
    )
