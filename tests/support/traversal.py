"""Opening a test's directory to the other users of the machine."""

import tempfile
from pathlib import Path


def open_to_others(path: Path, mode: int = 0o711) -> None:
    """Add a mode to a directory and to those above it, up to the one of temporary files."""
    above = path
    while above != Path(tempfile.gettempdir()) and above != above.parent:
        above.chmod(above.stat().st_mode | mode)
        above = above.parent
