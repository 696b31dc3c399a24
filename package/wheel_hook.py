# ruff: noqa: INP001  hatchling loads it by its path
"""Puts the control plane's binary and the gateway module into the wheel, where the environment names them.

Without it the wheel is pure Python, and the binary is built from the sources that the wheel carries. With
it the wheel is for the machines on which the binary runs.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAM = "MODELPLANE_WHEEL_BINARY"
"""The environment variable that names the binary to put in."""

MODULE = "MODELPLANE_WHEEL_MODULE"
"""The environment variable that names the gateway module to put in beside it."""

_FOLDER = "modelplane/_bin"

# The C library of manylinux2014, which the tag of the binary names.
_OLD_LIBC = 17

# e_machine of an ELF header (elf(5)), at byte 18.
_MACHINES = {62: "x86_64", 183: "aarch64"}


class WheelHook(BuildHookInterface[Any]):
    """See the module."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Say what else goes into the wheel that is about to be built, and where it may be installed."""
        program = os.environ.get(PROGRAM)
        if not program or version == "editable":
            return
        build_data["force_include"][program] = f"{_FOLDER}/modelplane-kubernetes"
        build_data["pure_python"] = False
        machine = _machine(Path(program))
        # The program is static: no libc of any age or kind is needed. The module needs what Envoy needs.
        libc = _OLD_LIBC
        if module := os.environ.get(MODULE):
            build_data["force_include"][module] = f"{_FOLDER}/{Path(module).name}"
            libc = max(libc, _libc(Path(module)))
        build_data["tag"] = f"py3-none-manylinux_2_{libc}_{machine}.musllinux_1_1_{machine}"


def _libc(module: Path) -> int:
    """Return the minor version of the GNU C library 2 that a library needs, from the names of its symbols."""
    versions = re.findall(rb"\0GLIBC_2\.(\d+)", module.read_bytes())
    return max((int(each) for each in versions), default=0)


def _machine(program: Path) -> str:
    with program.open("rb") as file:
        header = file.read(20)
    machine = _MACHINES.get(int.from_bytes(header[18:20], "little"))
    if header[:4] != b"\x7fELF" or machine is None:
        raise ValueError(f"{program} is no program for Linux on {' or '.join(_MACHINES.values())}")
    return machine
