"""A checkpoint in a folder, also of the hub's local cache. Names lead to regular files of the folder only."""

import os
import re
import stat
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from modelplane.checkpoints.checkpoint import CONFIG
from modelplane.sizing.architecture import MAX_CONFIG_BYTES
from modelplane.sizing.loaded_weights import MAX_HEADER_BYTES, Tensor, parse_header
from modelplane.user_error import UserError

_LENGTH = struct.Struct("<Q")

_REPO: Final = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
_REVISION: Final = re.compile(r"[A-Za-z0-9_][\w./-]*", re.ASCII)


class Folder:
    """A folder with a checkpoint."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.needs_token = False
        self._path = path.resolve()
        if not self._path.is_dir():
            raise UserError(f'"{path}" is not a folder: name the folder that contains config.json')
        # A snapshot in the hub's cache has links to the files beside all snapshots.
        is_snapshot = self._path.parent.name == "snapshots"
        self._roots = (self._path, self._path.parents[1] / "blobs") if is_snapshot else (self._path,)

    def list_files(self) -> Collection[str]:
        """Return the names of the files."""
        return sorted(entry.name for entry in os.scandir(self._path) if not entry.is_dir())

    def read_content(self, file: str, limit: int) -> bytes:
        """Return a file of at most ``limit`` bytes."""
        with self._open(file) as opened:
            content = opened.read(limit + 1)
        if len(content) > limit:
            raise UserError(f'"{file}" of {self.name} has more than {limit:,} bytes: it is none of a model')
        return content

    def read_header(self, file: str) -> Iterator[Tensor]:
        """Yield the tensors of a safetensors file."""
        with self._open(file) as opened:
            size = os.fstat(opened.fileno()).st_size
            begin = opened.read(_LENGTH.size)
            length = _LENGTH.unpack(begin)[0] if len(begin) == _LENGTH.size else -1
            if not 0 <= length <= min(MAX_HEADER_BYTES, size - _LENGTH.size):
                raise UserError(f'"{file}" of {self.name} is not a safetensors file: download it again')
            content = opened.read(length)
        yield from parse_header(content, file)

    def _open(self, file: str) -> BinaryIO:
        target = (self._path / file).resolve()
        if not any(target.is_relative_to(root) for root in self._roots):
            raise UserError(f'"{file}" of {self.name} leads out of the folder: copy the file into it')
        # Without O_NONBLOCK, opening a named pipe would wait for its writer.
        opened = os.fdopen(os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            opened.close()
            raise UserError(f'"{file}" of {self.name} is not a regular file: copy the file into the folder')
        return opened


class AtHand:
    """Local configurations of repositories of the hub."""

    def __init__(self, checkpoints: Path | None = None) -> None:
        """Look in ``checkpoints/OWNER/NAME`` first, whatever the revision."""
        self._checkpoints = checkpoints

    def read_config(self, repo: str, revision: str = "") -> bytes | None:
        """Return the text of a repository's ``config.json``; None if it is not at hand, or not readable."""
        if not _REPO.fullmatch(repo):
            return None
        folder = self._checkpoints / repo if self._checkpoints else None
        if folder is None or not folder.is_dir():
            folder = _cached(repo, revision)
        if folder is None:
            return None
        try:
            return Folder(folder).read_content(CONFIG, MAX_CONFIG_BYTES)
        except (UserError, OSError):
            return None


def _cached(repo: str, revision: str) -> Path | None:
    """Return the folder of a snapshot in the hub's local cache."""
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        return None
    if revision and not _REVISION.fullmatch(revision):
        return None
    path = try_to_load_from_cache(repo, CONFIG, revision=revision or None)
    return Path(path).parent if isinstance(path, str) else None
