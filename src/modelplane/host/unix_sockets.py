"""Reaching a Unix socket however long its path is.

An address has room for 107 bytes (unix(7)), and a home may lie deep. A program
of ours listens under a short name in its working directory; whoever connects
goes through a descriptor of that directory.
"""

import os
import socket
from pathlib import Path


def connect(connection: socket.socket, path: Path) -> None:
    """Connect to the socket at a path; ``OSError`` where nothing listens."""
    directory = os.open(path.parent, os.O_PATH)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
