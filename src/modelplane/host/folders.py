"""Removal of directories with contents of other programs."""

import os
import shutil
from pathlib import Path


def remove(path: Path) -> None:
    """Remove a directory and its contents; a missing one is no error.

    Links are removed, never followed. Where something cannot be removed, ``OSError`` names it.
    """
    if not path.exists():
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        # Some programs make directories read-only, so their entries cannot be removed.
        path.chmod(0o700)
        for directory, names, _ in os.walk(path):
            for name in names:
                path_below = Path(directory, name)
                if not path_below.is_symlink():
                    path_below.chmod(0o700)
        shutil.rmtree(path)
