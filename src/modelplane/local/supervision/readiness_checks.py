"""Readiness checks of the supervisor, for the processes that wait for another.

Each check answers at once or within half a second, and an answer of any other
kind is "not yet". The TLS library is loaded only where it is needed: the
standby never does.
"""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from modelplane.host import unix_sockets

_TIMEOUT_S = 0.5


class Check(Protocol):
    """One way to see readiness."""

    def is_ready(self, age_s: float) -> bool:
        """Return True if a process that was started ``age_s`` seconds ago is ready."""


@dataclass(frozen=True, slots=True)
class Lived:
    """Ready once it has lived for a while: a bad command line ends sooner."""

    seconds: float

    def is_ready(self, age_s: float) -> bool:
        """See ``Check``."""
        return age_s >= self.seconds


@dataclass(frozen=True, slots=True)
class Listens:
    """Ready once something accepts connections on a port of 127.0.0.1."""

    port: int

    def is_ready(self, age_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """See ``Check``."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), _TIMEOUT_S):
                return True
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class HealthyOnSocket:
    """Ready once ``path`` over HTTP on a Unix socket answers 200."""

    address: Path
    path: str

    def is_ready(self, age_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """See ``Check``."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_TIMEOUT_S)
                unix_sockets.connect(connection, self.address)
                return _answers(connection, self.path)
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Healthy:
    """Ready once ``https://127.0.0.1:port/path`` answers 200 with a certificate of our authority."""

    port: int
    path: str
    authority: Path

    def is_ready(self, age_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """See ``Check``."""
        import ssl  # noqa: PLC0415 - several megabytes that the standby does without

        try:
            context = ssl.create_default_context(cafile=str(self.authority))
            with (
                socket.create_connection(("127.0.0.1", self.port), _TIMEOUT_S) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as connection,
            ):
                return _answers(connection, self.path)
        except OSError:
            return False


def _answers(connection: socket.socket, path: str) -> bool:
    connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    return connection.recv(64).split(b" ")[1:2] == [b"200"]
