# ruff: noqa: INP001  a script, not a package
"""Make a release: locks, wheels, source distribution, Crossplane packages, bill of materials and checksums.

Usage: ``python package/release.py [DIRECTORY]``, by default ``dist``. The same commit and the same tools give
the same bytes: times are that of the commit (``SOURCE_DATE_EPOCH``). What cannot be built is left out, and
named at the end.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import bill_of_materials
import click
import cross_builds
import locks
from wheel_hook import MODULE, PROGRAM

from modelplane import __version__
from modelplane.crossplane.package import building, package_contents
from modelplane.crossplane.package.metadata import Registry, Version
from modelplane.host.errors import LocalError
from modelplane.local import gateway_module
from modelplane.local.build import Progress, Report

ROOT = Path(__file__).resolve().parent.parent
CHECKSUMS = "SHA256SUMS"
EPOCH = "SOURCE_DATE_EPOCH"


def main() -> int:
    """Make it and return the exit status."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").absolute()
    directory.mkdir(parents=True, exist_ok=True)
    remove_former(directory)
    os.environ.setdefault(EPOCH, commit_time())
    left_out: list[str] = []
    made: list[Path] = []
    # Not in /tmp, which may be memory: the environments have 800 MB.
    with tempfile.TemporaryDirectory(dir=directory, prefix=".release-") as scratch:
        for step in (_locks, _wheels, _source_distribution, _packages, _bill):
            made += step(directory, Path(scratch), left_out)
    click.echo(f"  {write_checksums(directory, made).name}")
    for each in left_out:
        click.echo(f"left out: {each}")
    if _git("status", "--porcelain"):
        click.echo("not to be published: the working tree has changes that are in no commit")
    return 0


def _locks(directory: Path, _scratch: Path, left_out: list[str]) -> Iterator[Path]:
    """Copy the locks of Python packages, and write that of the crates, with which the wheels are built."""
    for name in (*locks.EXTRAS, locks.BUILD):
        yield _said(Path(shutil.copy(locks.FOLDER / f"{name}.txt", directory / f"requirements-{name}.txt")))
    try:
        cross_builds.lock_crates(gateway_module.read_record().versions)
        yield _said(Path(shutil.copy(gateway_module.SOURCES / gateway_module.LOCK, directory)))
    except LocalError as error:
        left_out.append(f"{gateway_module.LOCK}: {error}")


def _wheels(directory: Path, scratch: Path, left_out: list[str]) -> Iterator[Path]:
    for machine in cross_builds.MACHINES:
        carried = {PROGRAM: str(cross_builds.control_plane(machine, _say(machine)))}
        if (library := gateway_module.find_carried(machine.name)) is None:
            left_out.append(f"the gateway module of {machine.name}: run `make gateway-module` first")
        else:
            carried[MODULE] = str(library)
        yield distribution("wheel", directory, scratch / machine.name, carried)


def _source_distribution(directory: Path, scratch: Path, _left_out: list[str]) -> Iterator[Path]:
    yield distribution("sdist", directory, scratch / "sdist", {})


def distribution(target: str, directory: Path, scratch: Path, carried: dict[str, str]) -> Path:
    """Build a distribution with hatchling, and return its path."""
    environment = {name: value for name, value in os.environ.items() if name not in {PROGRAM, MODULE}}
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(scratch)],
        cwd=ROOT,
        env=environment | carried,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"cannot build the {target}: {done.stderr.strip()}")
    [built] = scratch.iterdir()
    return _said(Path(shutil.move(built, directory / built.name)))


def _packages(directory: Path, _scratch: Path, left_out: list[str]) -> Iterator[Path]:
    """Build the packages of Crossplane, which are OCI image layouts."""
    registry, version = Registry(), Version.parse(__version__)
    for each in package_contents.packages(registry, version):
        built = building.build(each, registry, version, directory)
        yield _said(built.path, built.digest)
    here = os.uname().machine
    others = ", ".join(each.name for each in cross_builds.MACHINES if each.name != here)
    left_out.append(
        f"the function's image for {others}: it holds the Python that builds it, so build it there"
    )
    left_out.append(
        "the image of the controllers: build it from package/Containerfile, with a container runtime"
    )


def _bill(directory: Path, scratch: Path, left_out: list[str]) -> Iterator[Path]:
    path = directory / f"modelplane-{__version__}.cdx.json"
    tools = bill_of_materials.environment(scratch / "tools", *bill_of_materials.TOOLS)
    shipped = bill_of_materials.environment(scratch / "shipped", bill_of_materials.SHIPPED)
    bill = bill_of_materials.write(tools, shipped, path)
    # Both wheels have the same modules.
    program = cross_builds.control_plane(cross_builds.MACHINES[0], lambda _progress: None)
    modules = subprocess.run(
        [cross_builds.go(), "version", "-m", program], capture_output=True, text=True, check=True
    )
    more = [*bill_of_materials.go_modules(modules.stdout), *bill_of_materials.crates(cross_builds.crates())]
    path.write_text(json.dumps(bill_of_materials.extended(bill, more), indent=2) + "\n", encoding="utf-8")
    yield _said(path)
    left_out.append("licenses of Go modules in the bill of materials: Go does not record them")


def write_checksums(directory: Path, files: list[Path]) -> Path:
    """Write the checksums of files in the format of ``sha256sum``."""
    path = directory / CHECKSUMS
    lines = []
    for each in sorted(files):
        with each.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {each.name}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def remove_former(directory: Path) -> None:
    """Remove the files of an earlier release, which its checksums name."""
    path = directory / CHECKSUMS
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        name = line.partition("  ")[2]
        if name and Path(name).name == name:
            (directory / name).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def commit_time() -> str:
    """Return the time of the last commit, in seconds since 1970."""
    found = _git("log", "-1", "--format=%ct")
    if not found:
        raise SystemExit(f"this is no checkout with commits: set {EPOCH} to the time of the release")
    return found


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _say(machine: cross_builds.Machine) -> Report:
    said: set[str] = set()

    def report(progress: Progress) -> None:
        if progress.phase not in said:
            said.add(progress.phase)
            click.echo(f"{machine.name}: {progress.phase}")

    return report


def _said(path: Path, digest: str = "") -> Path:
    size = path.stat().st_size / 1e3
    shown = f"{size:.1f} kB" if size < 1e3 else f"{size / 1e3:.1f} MB"
    click.echo(f"  {path.name}  {shown}{f'  {digest}' if digest else ''}")
    return path


if __name__ == "__main__":
    sys.exit(main())
