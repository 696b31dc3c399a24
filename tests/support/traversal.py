"""Directories of tests that the other users of the machine may enter."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def common_folder(mode: int = 0o711) -> Iterator[Path]:
    """Make a directory beside pytest's own, which every run of pytest closes to others when it begins."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(mode)
        yield Path(folder)


def open_to_others(path: Path, mode: int = 0o711) -> None:
    """Add a mode to a directory and to those above it, up to the one of temporary files."""
    above = path
    while above != Path(tempfile.gettempdir()) and above != above.parent:
        above.chmod(above.stat().st_mode | mode)
        above = above.parent
