"""Ledger of one Envoy: it follows the files of usage records, and keeps their sums in a file.

The file has the sums and, for each file of records, how far it has been read, and is replaced in one step.
So each record counts once, whatever ends in between. A file of records is known by its first line, whose time
and id no other has: a name changes with a rotation, and an inode's number is used again.
"""

import datetime as dt
import hashlib
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from modelplane.gateway.usage.ledger import MOST_BYTES, Ledger, decode_rows, encode_rows
from modelplane.gateway.usage.usage_sums import MOST_LINE_BYTES, record_of
from modelplane.host.file_system import write_private
from modelplane.proxy import envoy_directory

_log = logging.getLogger(__name__)

LEDGER = "usage/ledger"
"""File of the sums, from Envoy's directory."""

_ID = "usage/ledger-id"
"""File of the ledger's name, which outlasts damage to that of the sums."""

_PIECE = 1 << 20
_FORMAT = "ledger, 1"
_AN_ID = re.compile("[0-9a-f]{16}")


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file."""

    format: str
    id: str
    """Name of the ledger: one on another disk has another."""
    read: dict[str, int]
    """Bytes that have been read, by the digest of a file's first line."""
    periods: dict[str, msgspec.Raw]


def get_now() -> dt.datetime:
    """Return the present time."""
    return dt.datetime.now(dt.UTC)


class LedgerFile:
    """Sums of the records in a directory. One process has it."""

    def __init__(self, directory: Path, now: Callable[[], dt.datetime] = get_now) -> None:
        self._directory = directory
        self._path = directory / LEDGER
        self._now = now
        self._ledger = Ledger(most_bytes=MOST_BYTES)
        self._loaded = False
        self._read: dict[str, int] = {}
        self.id = secrets.token_hex(8)
        """Name of the ledger, after the first look."""
        self._unsaved = False
        self._has_id = False
        self._lock = threading.Lock()
        """A look that was cancelled may go on in its thread."""

    def look(self) -> Ledger | None:
        """Read new records, and return the sums; None while older records are still to be read.

        Raises ``OSError``.
        """
        with self._lock:
            return self._look()

    def _look(self) -> Ledger | None:
        if not self._loaded:
            self._load()
        offsets: dict[str, int] = {}
        complete = True
        with ExitStack() as opened:
            for file in self._files(opened):
                complete = self._follow(file, offsets) and complete
        self._ledger.forget(self._now())
        # Files that are gone cannot come back.
        if offsets != self._read:
            self._read, self._unsaved = offsets, True
        if self._unsaved:
            self._save()
        return self._ledger if complete else None

    def _files(self, opened: ExitStack) -> Iterator[BinaryIO]:
        # The current file first: if it is rotated now, it is among the others too, and read once.
        with suppress(FileNotFoundError):
            yield opened.enter_context((self._directory / envoy_directory.USAGE_LOG).open("rb"))
        for path in envoy_directory.list_rotated(self._directory):
            with suppress(FileNotFoundError):
                yield opened.enter_context(path.open("rb"))

    def _follow(self, file: BinaryIO, offsets: dict[str, int]) -> bool:
        """Add the next records of a file; return True if there are no more."""
        first = file.readline(MOST_LINE_BYTES)
        if not first.endswith(b"\n") and len(first) < MOST_LINE_BYTES:
            return True  # not whole yet
        name = hashlib.sha256(first).hexdigest()
        if name in offsets:
            return True  # renamed while the files were listed
        at = self._read.get(name, 0)
        file.seek(at)
        piece = file.read(_PIECE)
        whole = piece.rfind(b"\n") + 1
        if not whole and len(piece) == _PIECE:
            whole = _PIECE  # a line that is too long for a record
        offsets[name] = at + whole
        for line in piece[:whole].split(b"\n"):
            if record := record_of(line):
                self._ledger.add(record)
        self._unsaved = self._unsaved or bool(whole)
        return len(piece) < _PIECE

    def _load(self) -> None:
        try:
            stored = msgspec.json.decode(self._path.read_bytes(), type=_Stored)
            if stored.format != _FORMAT:
                raise msgspec.ValidationError(f"its format is {stored.format}")
            periods = {name: decode_rows(bytes(rows)) for name, rows in stored.periods.items()}
            self._ledger = Ledger(periods, MOST_BYTES)
            self._read, self.id = stored.read, stored.id
        except FileNotFoundError:
            self._load_id()
        except msgspec.DecodeError as error:
            # The records are still there, except those that rotation has deleted.
            _log.warning("%s is damaged, so usage is summed again from the records: %s", self._path, error)
            self._load_id()
        self._loaded = True

    def _load_id(self) -> None:
        """Take the name that the sums had, so that those that are summed again replace them."""
        with suppress(FileNotFoundError):
            text = (self._directory / _ID).read_text(errors="replace")
            self.id = text if _AN_ID.fullmatch(text) else self.id

    def _save(self) -> None:
        periods = {
            name: msgspec.Raw(encode_rows(rows)) for name, rows in sorted(self._ledger.periods.items())
        }
        stored = _Stored(format=_FORMAT, id=self.id, read=self._read, periods=periods)
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        if not self._has_id:
            write_private(self._directory / _ID, self.id)
            self._has_id = True
        write_private(self._path, msgspec.json.encode(stored))
        self._unsaved = False
