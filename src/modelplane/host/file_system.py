"""Files that only their owner can read, folders with contents of other programs, and descriptors."""

import os
from contextlib import suppress
from pathlib import Path


def remove_folder(path: Path) -> None:
    """Remove a directory and its contents; a missing one is no error.

    Links are removed, never followed. Where something cannot be removed, ``OSError`` names it.
    """
    if not path.exists():
        return
    import shutil  # noqa: PLC0415  many commands write private files, and few remove folders

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


def keep_private() -> None:
    """Close every descriptor but the standard three in the programs that this process executes.

    A fleet outlives the terminal that started it, so whatever it inherited there would stay open for as long:
    a pipe whose reader then waits for ever, a file that cannot be unmounted. Nothing is handed on but what is
    named.
    """
    for entry in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(entry.name)
        if descriptor > 2:
            # The one that the listing itself used is closed by now.
            with suppress(OSError):
                os.set_inheritable(descriptor, False)
