"""Files that only their owner can read, replaced in one step."""

import os
from pathlib import Path


def write_private(path: Path, content: str | bytes) -> None:
    """Replace a file in one step; only its owner can read it at any moment."""
    data = content.encode() if isinstance(content, str) else content
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
