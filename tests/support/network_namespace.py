"""A network namespace for each test worker (network_namespaces(7)), so that two fleets never want one port.

A stopped fleet keeps its ports: another one that started meanwhile would take them. A worker enters a
namespace of its own before its first test, and all that its tests start is in it. There is no way out of
it but ``outside``, so what tests download is fetched before, or within that block.
"""

import ctypes
import fcntl
import os
import socket
import struct
import tempfile
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import platformdirs

_CLONE_NEWNET: Final = 0x40000000
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 0x1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_CLAIMS: Final = "ports.lock"

_host: list[int] = []
"""The namespace that this process was started in, while it is in another."""


def enter() -> None:
    """Move this thread, and all that it starts, into a new namespace with a loopback interface."""
    _host.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
    _check(_LIBC.unshare(_CLONE_NEWNET))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
    _claim_apart()


def _claim_apart() -> None:
    """Share the user's caches, but not the claims on ports: these are of one namespace."""
    shared = platformdirs.user_cache_path()
    os.environ.setdefault("GOCACHE", str(shared / "go-build"))
    own = Path(tempfile.mkdtemp(prefix="cache-"))
    link_caches(own, without={_CLAIMS})
    os.environ["XDG_CACHE_HOME"] = str(own)


def link_caches(own: Path, without: Container[str]) -> None:
    """Make a folder of caches that has all that the user's has, but for some entries of Modelplane's."""
    shared, ours = platformdirs.user_cache_path(), platformdirs.user_cache_path("modelplane")
    for folder in (ours, own / "modelplane"):
        folder.mkdir(parents=True, exist_ok=True)
    for entry in {*shared.iterdir(), *ours.iterdir(), ours / _CLAIMS} - {ours}:
        if entry.name not in without:
            (own / entry.relative_to(shared)).symlink_to(entry)


@contextmanager
def outside() -> Iterator[None]:
    """Be in the namespace of the machine for a while, as for a download."""
    if not _host:
        yield
        return
    inside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _check(_LIBC.setns(_host[0], _CLONE_NEWNET))
        yield
    finally:
        _check(_LIBC.setns(inside, _CLONE_NEWNET))
        os.close(inside)


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
