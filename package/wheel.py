# ruff: noqa: INP001  a script, not a package
"""Build the wheel that carries the control plane's binary, for machines like this one.

Usage: ``python package/wheel.py [DIRECTORY]``, by default ``dist``. The binary is built first, if there is
none yet. ``pip install`` of this wheel needs neither Go nor minutes.
"""

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from wheel_hook import PROGRAM

from modelplane.cli.build_progress import BuildProgress
from modelplane.local import binary

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Build it and return the exit status."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").absolute()
    with BuildProgress(Console()) as progress:
        program = binary.find_or_build(progress)
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)],
        cwd=ROOT,
        env=os.environ | {PROGRAM: str(program)},
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
