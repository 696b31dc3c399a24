# ruff: noqa: INP001  a script, not a package
"""Build the libraries that the repository carries for the gateway's Envoy, and their record.

Usage: ``.venv/bin/python package/gateway_module.py``, with Rust and a network, after a change of
``gateway-module``. With ``--check`` it builds the library of this machine again, from the crates of the
record, and fails if the bytes differ from those of the repository.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import bill_of_materials
import cross_builds
from cross_builds import MACHINES, Machine

from modelplane.host.errors import LocalError
from modelplane.local.build import Progress, find_cache
from modelplane.local.gateway_module import BUILT, LIBRARY, RECORD, BuildRecord, hash_sources, read_record


def main() -> int:
    """Build or compare, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="build again and compare; write nothing")
    try:
        check() if parser.parse_args().check else write()
    except LocalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def write() -> None:
    """Build the library of every machine into the repository, with the newest crates, and record it."""
    crates = cross_builds.lock_crates()
    libraries = {}
    for machine, built in _build(MACHINES).items():
        target = BUILT / machine.name / LIBRARY
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built, target)
        libraries[machine.name] = _hash(built)
    rustc = cross_builds.run_rustc("--version")
    record = BuildRecord(hash_sources(), rustc, cross_builds.ZIG, crates, libraries)
    (BUILT / RECORD).write_text(json.dumps(asdict(record), indent=2) + "\n")


def check() -> None:
    """Build the library of this machine again. Raises LocalError if it differs from the repository's.

    It is built once for each record, and only with the compiler of the record.
    """
    record, here = read_record(), os.uname().machine
    if shutil.which("rustc") is None or cross_builds.run_rustc("--version") != record.rustc:
        sys.stderr.write(f"The gateway module is not compared: {record.rustc} is not installed\n")
        return
    compared = find_cache() / "release" / f"compared-{hash_sources()}-{record.libraries[here]}"
    if compared.exists():
        return
    cross_builds.lock_crates(record.versions)
    [built] = _build([machine for machine in MACHINES if machine.name == here]).values()
    if _hash(built) != record.libraries[here]:
        raise LocalError(f"{built} differs from the library in {BUILT}: run `make gateway-module`")
    compared.touch()


def _build(machines: Sequence[Machine]) -> dict[Machine, Path]:
    with tempfile.TemporaryDirectory() as scratch:
        tools = bill_of_materials.environment(Path(scratch), cross_builds.ZIG)
        return {machine: cross_builds.gateway(machine, tools, _say) for machine in machines}


def _hash(library: Path) -> str:
    return hashlib.sha256(library.read_bytes()).hexdigest()


def _say(progress: Progress) -> None:
    sys.stderr.write(f"{progress.phase} (about a minute)\n")


if __name__ == "__main__":
    sys.exit(main())
