"""Ledgers of Envoys: the sums of one in a file, and those of gateways in a cluster as ConfigMaps.

A ledger follows the files of usage records. Its file has the sums and, for each file of records, how far it
has been read, and is replaced in one step. So each record counts once, whatever ends in between. A file of
records is known by its first line, whose time and id no other has: a name changes with a rotation, and an
inode's number is used again.

Gateways publish ConfigMaps, and the controllers read them. An object has the sums of one gateway in one day
or month. It stays when the gateway is gone, and the controllers delete it once its period is over.
"""

import base64
import datetime as dt
import gzip
import hashlib
import logging
import re
import secrets
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from modelplane.api import labels
from modelplane.api.inference_gateway import DEFAULT_NAME
from modelplane.api.meta import GATEWAY_NAMESPACE
from modelplane.gateway.usage.ledger import (
    MOST_BYTES,
    Ledger,
    Rows,
    decode_rows,
    encode_rows,
    end_of,
    is_kept,
    join_ledgers,
)
from modelplane.gateway.usage.usage_sums import MOST_LINE_BYTES, record_of
from modelplane.host.file_system import write_private
from modelplane.kube.resources import Object
from modelplane.proxy import envoy_directory

SELECTOR = f"{labels.USAGE}={DEFAULT_NAME}"
"""Label selector of the objects."""

_PERIOD, _SUMS = "period", "sums"
_MOST_LEDGER_BYTES = 64 << 20
_log = logging.getLogger(__name__)
LEDGER = "usage/ledger"
"""File of the sums, from Envoy's directory."""

_ID = "usage/ledger-id"
"""File of the ledger's name, which outlasts damage to that of the sums."""

_PIECE = 1 << 20
_FORMAT = "ledger, 1"
_AN_ID = re.compile("[0-9a-f]{16}")


def build_object(gateway: str, period: str, rows: Rows) -> Object:
    """Return the object of a gateway's sums in a period; the same for the same sums."""
    content = gzip.compress(encode_rows(rows), mtime=0)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"usage-{gateway}-{period}",
            "namespace": GATEWAY_NAMESPACE,
            "labels": {labels.USAGE: DEFAULT_NAME},
        },
        "data": {_PERIOD: period},
        "binaryData": {_SUMS: base64.b64encode(content).decode()},
    }


def read_period(item: Object) -> str:
    """Return the period of an object; empty if it has none."""
    return str((item.get("data") or {}).get(_PERIOD, ""))


def is_over(item: Object, now: dt.datetime) -> bool:
    """Return True if the period of an object is over; False if the object does not say which it is."""
    try:
        end_of(read_period(item))
    except ValueError:
        return False
    return not is_kept(read_period(item), now)


class _Known(NamedTuple):
    item: Object
    ledger: Ledger


class Published:
    """Sums of all gateways, read from their objects."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._joined = Ledger()
        self._was_complete = False

    def read(self, objects: Iterable[Object]) -> Ledger:
        """Return the sums; the same value while no object changes.

        An object that cannot be read keeps the sums that were last read from it. Raises ``OSError`` if there
        are none and none were known of the others: without them, budgets that are spent would open.
        """
        sums: dict[str, _Known] = {}
        unknown: list[str] = []
        for item in objects:
            name = item["metadata"]["name"]
            former = self._known.get(name)
            if former is not None and former.item is item:
                sums[name] = former
                continue
            try:
                end_of(read_period(item))
                sums[name] = _Known(item, Ledger({read_period(item): _rows(item)}))
            except (zlib.error, ValueError, EOFError, OSError) as error:
                problem = f"ConfigMap {GATEWAY_NAMESPACE}/{name} is damaged: {error}"
                if former is None and not self._was_complete:
                    unknown.append(problem)
                    continue
                _log.warning("%s", problem)
                sums[name] = _Known(item, former.ledger if former else Ledger())
        if sums != self._known:
            self._known, self._joined = (
                sums,
                join_ledgers(published_sums.ledger for published_sums in sums.values()),
            )
        if unknown:
            raise OSError(f"{min(unknown)}; delete it if its sums need not count")
        self._was_complete = True
        return self._joined


def _rows(item: Object) -> Rows:
    content = base64.b64decode((item.get("binaryData") or {}).get(_SUMS, ""), validate=True)
    unpacking = zlib.decompressobj(wbits=31)
    text = unpacking.decompress(content, _MOST_LEDGER_BYTES)
    if not unpacking.eof:
        raise EOFError("it is not complete")
    return decode_rows(text)


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
