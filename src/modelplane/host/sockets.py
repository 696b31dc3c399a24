"""Sockets of this machine: whether a server could listen, and Unix sockets with paths of any length."""

import os
import socket
from pathlib import Path


def find_listen_problem(host: str, port: int) -> OSError | None:
    """Return why no server can listen on a port of an address now; None if one can."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # As for servers, a connection in TIME_WAIT does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def connect(connection: socket.socket, path: Path) -> None:
    """Connect to the Unix socket at a path; raise ``OSError`` if nothing listens.

    A socket's address holds 107 bytes (unix(7)), and a home's path may be longer. Servers listen under a
    short name in their working directory, and clients connect through a descriptor of that directory.
    """
    directory = os.open(path.parent, os.O_PATH)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
