"""A checkpoint in a folder. Names lead to regular files of the folder only."""

import os
import stat
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from modelplane.sizing.tensors import MAX_HEADER_BYTES, Tensor, header
from modelplane.sizing.unsizable import Unsizable

_LENGTH = struct.Struct("<Q")


class Folder:
    """A folder with a checkpoint."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.needs_token = False
        self._path = path.resolve()
        if not self._path.is_dir():
            raise Unsizable(f'"{path}" is no folder: name the folder that has config.json')
        # A snapshot in the hub's cache has links to the files beside all snapshots.
        is_snapshot = self._path.parent.name == "snapshots"
        self._roots = (self._path, self._path.parents[1] / "blobs") if is_snapshot else (self._path,)

    def files(self) -> Collection[str]:
        """Return the names of the files."""
        return sorted(each.name for each in os.scandir(self._path) if not each.is_dir())

    def content(self, file: str, limit: int) -> bytes:
        """Return a file of at most ``limit`` bytes."""
        with self._open(file) as opened:
            content = opened.read(limit + 1)
        if len(content) > limit:
            raise Unsizable(f'"{file}" of {self.name} has more than {limit:,} bytes: it is none of a model')
        return content

    def header(self, file: str) -> Iterator[Tensor]:
        """Yield the tensors of a safetensors file."""
        with self._open(file) as opened:
            size = os.fstat(opened.fileno()).st_size
            begin = opened.read(_LENGTH.size)
            length = _LENGTH.unpack(begin)[0] if len(begin) == _LENGTH.size else -1
            if not 0 <= length <= min(MAX_HEADER_BYTES, size - _LENGTH.size):
                raise Unsizable(f'"{file}" of {self.name} is no safetensors file: download it again')
            content = opened.read(length)
        yield from header(content, file)

    def _open(self, file: str) -> BinaryIO:
        """Open a file of the folder for reading."""
        target = (self._path / file).resolve()
        if not any(target.is_relative_to(root) for root in self._roots):
            raise Unsizable(f'"{file}" of {self.name} leads out of the folder: copy the file into it')
        # Without O_NONBLOCK, opening a named pipe would wait for its writer.
        opened = os.fdopen(os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            opened.close()
            raise Unsizable(f'"{file}" of {self.name} is no regular file: copy the file into the folder')
        return opened
