"""File descriptors that a process passes on to the programs that it starts.

A fleet outlives the terminal that started it, so whatever it inherited there
would stay open for as long: a pipe whose reader then waits for ever, a file
that cannot be unmounted. Nothing is handed on but what is named.
"""

import os
from contextlib import suppress
from pathlib import Path


def keep_private() -> None:
    """Close every descriptor but the standard three in the programs that this process executes."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(entry.name)
        if descriptor > 2:
            # The one that the listing itself used is closed by now.
            with suppress(OSError):
                os.set_inheritable(descriptor, False)
