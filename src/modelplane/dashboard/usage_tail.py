"""Tail of the usage records that the Envoy on this machine writes, across rotations of their file."""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from modelplane.gateway.usage.usage_sums import MOST_LINE_BYTES, UsageRecord, record_of
from modelplane.proxy.usage_files import USAGE_LOG

_FIRST_BYTES = 16 << 20
"""Part of the file that is read at first, from its end."""

_MOST_BYTES = 16 << 20
"""Maximum of one read; the rest is read by the next."""


class UsageTail:
    """Reads what is appended to the file."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / USAGE_LOG
        self._file: BinaryIO | None = None
        self._rest = b""

    def read(self) -> tuple[UsageRecord, ...]:
        """Return the records since the last read; at first, those at the end of the file."""
        records = self._lines()
        if self._renamed():
            records += self._lines()
        return tuple(filter(None, map(record_of, records)))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _renamed(self) -> bool:
        """Open the file of this name if it is another one now; return True if it is."""
        with suppress(FileNotFoundError):
            if self._file is None or os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino:
                self.close()
                self._rest = b""
                self._file = self._path.open("rb")
                return True
        return False

    def _lines(self) -> list[bytes]:
        if self._file is None:
            if not self._renamed() or self._file is None:
                return []
            self._file.seek(max(os.fstat(self._file.fileno()).st_size - _FIRST_BYTES, 0))
        *lines, rest = (self._rest + self._file.read(_MOST_BYTES)).split(b"\n")
        self._rest = rest[: MOST_LINE_BYTES + 1]
        return lines
