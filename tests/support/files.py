"""Files of a folder in which programs write, replace and delete some meanwhile."""

import os
from contextlib import suppress
from pathlib import Path


def holding(folder: Path, content: bytes) -> list[Path]:
    """Return the files with a content in them."""
    # ``os.walk`` passes over a folder that is gone, where ``Path.rglob`` raises.
    paths = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return [path for path in paths if content in _read(path)]


def _read(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        if path.is_file():
            return path.read_bytes()
    return b""
