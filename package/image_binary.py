# ruff: noqa: INP001  a script, not a package
"""Build the control plane's binary, which has Helm in it, to a path: for the image.

Usage: ``PYTHONPATH=src python package/image_binary.py TARGET``. It needs Python with pip, and none of
Modelplane's dependencies. Go is installed if there is none.
"""

import sys
import tempfile
from pathlib import Path

from modelplane.local import build
from modelplane.local.build import Progress

SOURCES = Path(__file__).resolve().parent.parent / "kubernetes"


def main() -> None:
    """Build it, and print each phase."""
    target = Path(sys.argv[1]).absolute()
    said = ""

    def report(progress: Progress) -> None:
        nonlocal said
        if progress.phase != said:
            said = progress.phase
            sys.stdout.write(f"{said}\n")
            sys.stdout.flush()

    with tempfile.TemporaryDirectory() as folder:
        needed = build.read_needed_version(SOURCES)
        go = build.find_or_install(needed, Path(folder), lambda phase: report(Progress(phase)))
        build.build(SOURCES, target, go, report)


if __name__ == "__main__":
    main()
