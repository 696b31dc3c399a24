# ruff: noqa: INP001  a script, not a package
"""Lock the Python packages that a release installs: exact versions with hashes, and no address.

Usage: ``.venv/bin/python package/locks.py``, with a network. It writes ``package/locks/NAME.txt`` for each
lock, with the newest versions that ``pyproject.toml`` accepts and the hashes of every file of a version, so
that ``pip install --require-hashes --requirement`` accepts the lock for each version of Python, on each kind
of machine, and from any index. ``UV_DEFAULT_INDEX`` names the index that is read.
"""

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import bill_of_materials
import click

from modelplane.local import build

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "package" / "locks"
UV = "uv==0.13.9"

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "all": bill_of_materials.EXTRAS,
    "image": ("function", "gateway", "mutual-tls", "otel"),
}
"""The extras in a lock, by its name: all that users install, and those of the image of the controllers."""

BUILD = "build"
"""The name of the lock of what builds the image: hatchling and Go."""

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def main() -> int:
    """Write every lock and return the exit status."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        programs = bill_of_materials.environment(Path(scratch, "uv"), UV)
        for name, extras in EXTRAS.items():
            # The image has the same versions as users have.
            constraints = [] if name == "all" else ["--constraints", str(_path("all"))]
            _lock(programs, name, "pyproject.toml", *(f"--extra={extra}" for extra in extras), *constraints)
        builders = Path(scratch, "build.in")
        builders.write_text("\n".join(build_requirements()), encoding="utf-8")
        _lock(programs, BUILD, builders)
    return 0


def build_requirements() -> Iterator[str]:
    """Yield the requirements of what builds the wheel and the control plane's binary in the image."""
    yield from _PROJECT["build-system"]["requires"]
    yield build.build_requirement(build.read_needed_version(ROOT / "kubernetes"))


def _path(name: str) -> Path:
    return FOLDER / f"{name}.txt"


def _lock(programs: Path, name: str, *sources: str | Path) -> None:
    python = _PROJECT["project"]["requires-python"].removeprefix(">=")
    subprocess.run(
        [
            *(programs / "uv", "pip", "compile", "--quiet", "--no-config", "--upgrade", "--universal"),
            *(f"--python-version={python}", "--generate-hashes", "--only-binary=:all:", "--no-annotate"),
            *("--custom-compile-command=.venv/bin/python package/locks.py", "--output-file", _path(name)),
            *sources,
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    click.echo(f"  {_path(name).relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
