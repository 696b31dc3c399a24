"""Files of a command's arguments: named ones, those of folders, and standard input.

One rule: an unreadable file is a problem with a position, and never stops the rest.
"""

import codecs
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct
from msgspec.structs import replace

from modelplane.api.meta import GROUP

SUFFIXES: Final = (".yaml", ".yml", ".json")
STANDARD_INPUT: Final = "-"
MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum of one file. A dump of a fleet of ten thousand clusters is smaller."""

_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Origin(Enum):
    """Origin of a text."""

    NAMED = auto()
    """The command names its file."""
    WALKED = auto()
    """The command names its folder, which may have other files too."""
    PIPED = auto()
    """Standard input."""


class Source(Struct, frozen=True):
    """A text, and the name of its file."""

    name: str
    text: str
    origin: Origin = Origin.NAMED


class Unopened(Struct, frozen=True):
    """A file or folder that could not be read, with the reason."""

    name: str
    why: str


def read(paths: Iterable[str], standard_input: Callable[[], BinaryIO]) -> Iterator[Source | Unopened]:
    """Yield each file once, those of a folder in the order of their names."""
    seen = set()
    for path in paths:
        if path == STANDARD_INPUT:
            yield _read("stdin", lambda: standard_input().read(MAX_BYTES + 1), Origin.PIPED)
            continue
        files, origin = [path], Origin.NAMED
        if Path(path).is_dir():
            origin = Origin.WALKED
            refused: list[OSError] = []
            files = list(_manifests(path, refused))
            yield from (Unopened(str(error.filename), _unreadable(error)) for error in refused)
            if not files and not refused:
                yield Unopened(
                    path, f"the folder contains no {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file"
                )
        for file in files:
            if (identity := Path(file).resolve()) not in seen:
                seen.add(identity)
                yield _read(file, functools.partial(_content, file), origin)


def select_related(sources: Iterable[Source | Unopened]) -> Iterator[Source | Unopened]:
    """Yield the files that may have objects of ours, as if their folder were named and not they.

    A file whose text does not name the API group has none.
    """
    for source in sources:
        if isinstance(source, Unopened):
            yield source
        elif GROUP in source.text:
            yield replace(source, origin=Origin.WALKED)


def _manifests(folder: str, refused: list[OSError]) -> Iterator[str]:
    """Yield the manifests below a folder, without those of hidden folders such as ``.github``.

    Folders that cannot be read are added to ``refused``.
    """
    for parent, folders, files in os.walk(folder, onerror=refused.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (str(Path(parent, name)) for name in sorted(files) if name.endswith(SUFFIXES))


def _content(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror or type(error).__name__}"


def _read(name: str, content: Callable[[], bytes], origin: Origin) -> Source | Unopened:
    try:
        text = content()
    except OSError as error:
        return Unopened(name, _unreadable(error))
    if len(text) > MAX_BYTES:
        return Unopened(name, f"larger than {MAX_BYTES // 1024**2} MiB: split the file")
    encoding, called = ("utf-16", "UTF-16") if text.startswith(_UTF_16) else ("utf-8-sig", "UTF-8")
    try:
        return Source(name, text.decode(encoding), origin)
    except UnicodeDecodeError as error:
        what = "not text" if b"\0" in text else f"byte {error.start + 1} is not {called}"
        return Unopened(name, f"{what}: save it as UTF-8")
