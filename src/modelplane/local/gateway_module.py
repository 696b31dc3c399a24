"""Source of the gateway module: the library that Envoy loads.

In this order: the environment variable, the installed wheel, the library that the repository carries for its
sources, and where someone has edited the sources, the user's cache under a key of everything that the build
depends on, or a build with Rust's ``cargo``. A library is made for one Envoy, the version that
``pyproject.toml`` requires.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import modelplane
from modelplane.host.errors import LocalError
from modelplane.local import build
from modelplane.local.build import Progress, Report

ENVIRONMENT_VARIABLE = "MODELPLANE_GATEWAY_MODULE"
"""Environment variable with the path of a library built elsewhere, which is used as is."""

LIBRARY = "libmodelplane_gateway.so"
"""Name of the library, from which Envoy makes the name ``modelplane_gateway``."""

LOCK = "Cargo.lock"
"""The versions and checksums of the crates, beside the manifest where a release or its user has put it."""

_PACKAGE = Path(modelplane.__file__).parent

SOURCES = _PACKAGE.parents[1] / "gateway-module"
"""The crate, in a checkout of the repository."""

BUILT = SOURCES / "built"
"""The libraries that the repository carries, one for each kind of machine, and the record of their build."""

RECORD = "record.json"
"""Name of the record: the sources, tools and crates of the build, and the SHA-256 of each library."""

# The oldest C library that the Rust of today supports; `cargo-zigbuild` links against its symbols.
_OLD_LIBC = "x86_64-unknown-linux-gnu.2.17"


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """Sources, tools and results of the build of the repository's libraries."""

    sources: str
    """SHA-256 of the sources, as ``hash_sources`` returns it."""
    rustc: str
    """What ``rustc --version`` printed."""
    linker: str
    """The requirement of the package with the linker."""
    crates: Mapping[str, Sequence[str]]
    """Version and SHA-256 of each crate."""
    libraries: Mapping[str, str]
    """SHA-256 of the library for each kind of machine."""

    @property
    def versions(self) -> dict[str, str]:
        """The version of each crate."""
        return {name: version for name, (version, _) in self.crates.items()}


def read_record() -> BuildRecord:
    """Return the record of the libraries that the repository carries."""
    return BuildRecord(**json.loads((BUILT / RECORD).read_text()))


def find() -> Path | None:
    """Return a library that is ready to be loaded, if there is one."""
    if chosen := os.environ.get(ENVIRONMENT_VARIABLE):
        path = Path(chosen).absolute()
        if not path.is_file():
            raise LocalError(f"{ENVIRONMENT_VARIABLE} names {path}, which is not a file")
        return path
    shipped = _PACKAGE / "_bin" / LIBRARY
    if shipped.exists() or not SOURCES.exists():
        return shipped if shipped.exists() else None
    if (carried := find_carried(os.uname().machine)) is not None:
        return carried
    cached = _cached()
    return cached if cached.exists() else None


def find_carried(machine: str) -> Path | None:
    """Return the library of the repository for a kind of machine, if it is that of the present sources."""
    library = BUILT / machine / LIBRARY
    if not library.exists():
        return None
    record = read_record()
    if record.sources != hash_sources():
        return None
    if record.libraries[machine] != hashlib.sha256(library.read_bytes()).hexdigest():
        raise LocalError(
            f"{library} doesn't match its record in {RECORD}: restore the library with `git checkout -- "
            f"{library}`, or build it with `make gateway-module`"
        )
    return library


def hash_sources() -> str:
    """Return the SHA-256 of the crate's sources and manifest, the same on every machine."""
    files = sorted(path for path in (SOURCES / "src").rglob("*.rs"))
    parts = (
        f"{path.relative_to(SOURCES)}\0{path.read_text()}\0" for path in (SOURCES / "Cargo.toml", *files)
    )
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def find_or_build(report: Report) -> Path:
    """Return a library that is ready to be loaded, building it if there is none: about a minute, once."""
    existing = find()
    if existing is not None:
        return existing
    if not can_build():
        raise LocalError(
            "cannot build the gateway module without a Modelplane checkout and `cargo` from Rust 1.88 or "
            f"later: install both, or set {ENVIRONMENT_VARIABLE} to a library built elsewhere"
        )
    target = _cached()
    with build.hold_build(target.parent.parent, report):
        if not target.exists():
            compile_to(target, target.parent.parent / "target", _command(), report)
    return target


def can_build() -> bool:
    """Return whether the sources are here and Rust's ``cargo`` is on PATH."""
    return shutil.which("cargo") is not None and (SOURCES / "Cargo.toml").exists()


def _command() -> list[str]:
    """Return the command that builds: for an old C library where ``cargo-zigbuild`` can link against it."""
    portable = shutil.which("cargo-zigbuild") and os.uname().machine == "x86_64"
    return ["zigbuild", "--release", "--target", _OLD_LIBC] if portable else ["build", "--release"]


def read_manifests() -> list[str]:
    """Return the texts of the crate's manifest and, if a release has written one, of its lock."""
    return [path.read_text() for path in (SOURCES / "Cargo.toml", SOURCES / LOCK) if path.exists()]


def _cached() -> Path:
    key = build.compute_key(SOURCES / "src", frozenset({".rs", ".toml"}), [*read_manifests(), *_command()])
    return build.find_cache() / "gateway-module" / key / LIBRARY


def compile_to(
    target: Path,
    products: Path,
    command: Sequence[str],
    report: Report,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Compile the crate to ``target`` with a command of cargo, replacing it in one step.

    ``products`` is the folder that cargo keeps from one build to the next.
    """
    report(Progress("compiling the gateway module"))
    target.parent.mkdir(parents=True, exist_ok=True)
    # Cargo writes beside the sources, which may be read-only.
    copy = target.parent / "source"
    # With new times: cargo takes sources that are older than its last products for those of the products.
    shutil.copytree(SOURCES / "src", copy / "src", dirs_exist_ok=True, copy_function=shutil.copy)
    shutil.copy(SOURCES / "Cargo.toml", copy)
    locked = []
    if (SOURCES / LOCK).exists():
        shutil.copy(SOURCES / LOCK, copy)
        locked = ["--locked"]
    done = subprocess.run(
        ["cargo", *command, *locked, "--quiet", "--target-dir", products],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "".join(f"\n  {line}" for line in done.stderr.strip().splitlines()[-8:])
        raise LocalError(f"cannot build the gateway module: cargo failed:{last}")
    (built,) = products.glob(f"release/{LIBRARY}" if "build" in command else f"*/release/{LIBRARY}")
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copy(built, unfinished)
    unfinished.replace(target)
    shutil.rmtree(copy)
