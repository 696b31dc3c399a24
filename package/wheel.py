# ruff: noqa: INP001  a script, not a package
"""Build the wheel that carries the control plane's binary and the gateway module, for this kind of machine.

Usage: ``python package/wheel.py [DIRECTORY]``, by default ``dist``. The binary is built first, if there is
none yet, and the module likewise where Rust's ``cargo`` is. ``pip install`` of this wheel needs neither Go
nor minutes.
"""

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from wheel_hook import MODULE, PROGRAM

from modelplane.cli.machine.build_progress import BuildProgress
from modelplane.local import binary, gateway_module

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Build it and return the exit status."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").absolute()
    with BuildProgress(Console()) as progress:
        program = binary.find_or_build(progress)
    carried = {PROGRAM: str(program)}
    module = gateway_module.find()
    if module is None and gateway_module.can_build():
        module = gateway_module.find_or_build(lambda _progress: None)
    if module is None:
        sys.stderr.write("there is no cargo on PATH: the wheel carries no module for the gateway\n")
    else:
        carried[MODULE] = str(module)
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)],
        cwd=ROOT,
        env=os.environ | carried,
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
