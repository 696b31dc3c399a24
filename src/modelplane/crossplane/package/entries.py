"""Files of an image, and the tar stream that they make.

One rule: the same files make the same bytes. Every file is root's and of the year 1970. Every file is also
readable by all, because Crossplane runs functions as a user of its own.
"""

import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

ANYONE_MAY_WRITE = 0o1777


@dataclass(frozen=True, slots=True)
class File:
    """A file of an image."""

    path: str
    """Where it is in the image, without a leading slash."""
    source: Path | bytes
    """A file of this machine, or what is in it."""
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is there though nothing is in it."""

    path: str
    mode: int = 0o755


Entry = File | Folder


def arranged(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Return entries by name, each folder before what is in it, whether it is among them or not."""
    known = {entry.path: entry for entry in entries}
    for path in list(known):
        for parent in PurePosixPath(path).parents[:-1]:
            known.setdefault(str(parent), Folder(str(parent)))
    return (known[path] for path in sorted(known))


def write_tar(out: IO[bytes], entries: Iterable[Entry]) -> None:
    """Write entries as a tar stream, in their order."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            if isinstance(entry, Folder):
                archive.addfile(_header(entry.path, entry.mode, tarfile.DIRTYPE))
                continue
            header = _header(entry.path, 0o755 if entry.executable else 0o644, tarfile.REGTYPE)
            with _opened(entry.source) as content:
                header.size = content.seek(0, io.SEEK_END)
                content.seek(0)
                archive.addfile(header, content)


def _opened(source: Path | bytes) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


def _header(path: str, mode: int, kind: bytes) -> tarfile.TarInfo:
    header = tarfile.TarInfo(path)
    header.mode = mode
    header.type = kind
    return header
