# ruff: noqa: INP001  hatchling loads it by its path
"""Puts the control plane's binary into the wheel, where the environment names one.

Without it the wheel is pure Python, and the binary is built from the sources that the wheel carries. With
it the wheel is for the machines on which the binary runs.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAM = "MODELPLANE_WHEEL_BINARY"
"""The environment variable that names the binary to put in."""

_PLACE = "modelplane/_bin/modelplane-kubernetes"

# e_machine of an ELF header (elf(5)), at byte 18.
_MACHINES = {62: "x86_64", 183: "aarch64"}


class WheelHook(BuildHookInterface[Any]):
    """See the module."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Say what else goes into the wheel that is about to be built, and where it may be installed."""
        program = os.environ.get(PROGRAM)
        if not program or version == "editable":
            return
        build_data["force_include"][program] = _PLACE
        build_data["pure_python"] = False
        # The program is static: no libc of any age or kind is needed.
        machine = _machine(Path(program))
        build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"


def _machine(program: Path) -> str:
    with program.open("rb") as file:
        header = file.read(20)
    machine = _MACHINES.get(int.from_bytes(header[18:20], "little"))
    if header[:4] != b"\x7fELF" or machine is None:
        raise ValueError(f"{program} is no program for Linux on {' or '.join(_MACHINES.values())}")
    return machine
