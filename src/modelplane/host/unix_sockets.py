"""Unix sockets with paths of any length.

A socket's address holds 107 bytes (unix(7)), and a home's path may be longer. Servers listen under a short
name in their working directory, and clients connect through a descriptor of that directory.
"""

import os
import socket
from pathlib import Path


def connect(connection: socket.socket, path: Path) -> None:
    """Connect to the socket at a path; raise ``OSError`` if nothing listens."""
    directory = os.open(path.parent, os.O_PATH)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
