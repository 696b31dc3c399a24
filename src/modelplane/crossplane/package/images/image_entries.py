"""Files of an image, and their tar stream.

One rule: the same files give the same bytes. Every file belongs to root, has a time of 1970, and is readable
by all, because Crossplane runs functions as a user of its own.
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
    """Its path in the image, without a leading slash."""
    source: Path | bytes
    """The local file, or its content."""
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that exists even if it is empty."""

    path: str
    mode: int = 0o755


Entry = File | Folder


def arranged(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Return entries by name, each after the folders that contain it, which are added if missing."""
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
