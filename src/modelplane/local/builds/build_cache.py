"""Cache of what is built on this machine, in the user's cache directory.

A result is found under a key of everything that its build depends on.
"""

import fcntl
import hashlib
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from modelplane.host.errors import LocalError
from modelplane.local.builds.build import Progress, Report


def folder() -> Path:
    """Return the cache directory."""
    import platformdirs  # noqa: PLC0415 - not needed where a result is shipped or named

    return platformdirs.user_cache_path("modelplane", appauthor=False)


def key(sources: Path, suffixes: frozenset[str], options: Sequence[str]) -> str:
    """Return a name for the result of a build of sources with options on this machine."""
    digest = hashlib.sha256()
    parts = [sys.platform, platform.machine(), *options]
    for path in sorted(sources.rglob("*")):
        if path.suffix in suffixes:
            parts += [str(path.relative_to(sources)), path.read_text()]
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:16]


@contextmanager
def only_build(directory: Path, report: Report) -> Iterator[None]:
    """Let only one build write to a directory, which is made; the others wait for its result."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"cannot write to {directory}: {error.strerror}: set XDG_CACHE_HOME") from error
    with (directory / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(Progress("waiting for another build of the same"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
