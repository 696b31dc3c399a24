"""The loopback ports of one control plane: chosen once, then kept.

Kubeconfigs, certificates and users' notes name them, so a port never changes
by itself after the first start; a port that another program has taken is an error.
"""

import dataclasses
import errno
import fcntl
import functools
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

from modelplane.host.errors import LocalError
from modelplane.host.sockets import find_listen_problem

_HIGHEST = 32767
"""Above it are the ephemeral ports of Linux."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports on 127.0.0.1; the values here are tried first, and 0 means unused."""

    api_server: int = 6443
    agent: int = 10250
    # Not 8080, where a kubectl without a kubeconfig looks for Kubernetes.
    gateway: int = 8800
    workload_gateway: int = 8801


ALONE = frozenset(field.name for field in dataclasses.fields(Ports))
"""Ports of a control plane that is its own only cluster."""

FRONT = ALONE - {"agent", "workload_gateway"}
"""Ports of a control plane without a node, in front of other clusters."""

BEHIND = ALONE - {"gateway"}
"""Ports of each of those clusters."""

OWNERS = {"api_server": "control-plane", "agent": "agent", "gateway": "envoy", "workload_gateway": "envoy"}
"""The process that listens on each port."""


def can_listen(port: int) -> bool:
    """Return True if a server could listen on this port of 127.0.0.1 now."""
    error = find_listen_problem("127.0.0.1", port)
    if error is not None and error.errno not in {errno.EADDRINUSE, errno.EACCES}:
        raise error
    return error is None


def claim_free(port: int) -> bool:
    """Claim a port if it is free and no other fleet of this user has claimed it; return True if so.

    Raises ``LocalError`` where there is no place for claims.
    """
    try:
        return can_listen(port) and claim(port)
    except OSError as error:
        raise LocalError(
            f'cannot use "{error.filename}": {error.strerror}: set XDG_CACHE_HOME to a directory that '
            "you can write to"
        ) from error


def claim(port: int) -> bool:
    """Claim a port among the fleets of this user; return False if another fleet has it.

    A claimed port need not be in use yet. The claim is a record lock on the byte of that number and ends with
    this process: first the command that starts a fleet has it, then the fleet's supervisor.
    """
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    return True


def release() -> None:
    """Release every claim of this process."""
    os.close(_claims())
    _claims.cache_clear()


@functools.cache
def _claims() -> int:
    import platformdirs  # noqa: PLC0415 - the supervisor does without

    directory = platformdirs.user_cache_path("modelplane", appauthor=False)
    directory.mkdir(parents=True, exist_ok=True)
    return os.open(directory / "ports.lock", os.O_RDWR | os.O_CREAT, 0o600)


def choose(
    names: Collection[str] = ALONE, taken: Collection[int] = (), is_free: Callable[[int], bool] = claim_free
) -> Ports:
    """Return for each name the first free port at or after the preferred one, no port twice."""
    chosen = dict.fromkeys(ALONE, 0)
    for field in dataclasses.fields(Ports):
        first = getattr(Ports(), field.name)
        if field.name not in names:
            continue
        for port in range(first, _HIGHEST + 1):
            if port not in taken and port not in chosen.values() and is_free(port):
                chosen[field.name] = port
                break
        else:
            raise LocalError(
                f"no port between {first} and {_HIGHEST} on 127.0.0.1 is free for the {field.name}"
            )
    return Ports(**chosen)


def find_taken(
    ports: Ports, running: Collection[str], is_free: Callable[[int], bool] = claim_free
) -> tuple[int, str] | None:
    """Return a port that a stranger holds, and which of our processes uses it.

    ``running`` names our own processes that run already and may hold their ports.
    """
    for name, owner in OWNERS.items():
        port = getattr(ports, name)
        if port and owner not in running and not is_free(port):
            return port, owner
    return None
