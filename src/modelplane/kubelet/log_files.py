"""Logs that a supervisor wrote (see ``shim``): the requested lines, then new ones as they are written.

Every line starts with its time in a fixed width, so times compare as text. The options are those of the
kubelet's ``/containerLogs`` (core/v1 ``PodLogOptions``).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from modelplane.kubelet.runtime.shim import TIMESTAMP_WIDTH

_BLOCK = 64 * 1024
ENDING_LINES = 80
"""Number of lines at the end of a log that are read for its ending."""
_ENDING_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a log to read, and its form."""

    tail_lines: int | None = None
    """The last so many lines; None for all."""
    since: str = ""
    """Only lines of this time (as in the log) or later."""
    limit_bytes: int | None = None
    timestamps: bool = False


async def read(
    path: Path, selection: Selection, ended: Callable[[], bool] | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield parts of a log; with ``ended``, follow it until that returns True."""
    left = selection.limit_bytes
    async for data in _lines(path, selection, ended):
        part = data if left is None else data[:left]
        if part:
            yield part
        if left is not None:
            left -= len(part)
            if left <= 0:
                return


async def _lines(
    path: Path, selection: Selection, ended: Callable[[], bool] | None
) -> AsyncGenerator[bytes, None]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    try:
        if selection.tail_lines is not None:
            file.seek(find_tail(file, selection.tail_lines))
        unfinished = b""
        while True:
            # Check both before reading: what was written before the end or the rotation is read then.
            over = ended is None or ended()
            rotated = is_replaced(path, file)
            while block := file.read(_BLOCK):
                *lines, unfinished = (unfinished + block).split(b"\n")
                if data := b"".join(_formatted(lines, selection)):
                    yield data
                await asyncio.sleep(0)
            if rotated:
                file.close()
                file, unfinished = path.open("rb"), b""
            elif over:
                return
            else:
                await asyncio.sleep(0.2)
    finally:
        file.close()


def _formatted(lines: list[bytes], selection: Selection) -> Iterator[bytes]:
    since = selection.since.encode()
    for line in lines:
        if line[:TIMESTAMP_WIDTH] >= since:
            yield (line if selection.timestamps else line[TIMESTAMP_WIDTH + 1 :]) + b"\n"


def is_replaced(path: Path, file: BinaryIO) -> bool:
    """Return True if the path is another file by now; false while it is between the two."""
    try:
        return not path.samefile(f"/dev/fd/{file.fileno()}")
    except FileNotFoundError:
        return False


def find_tail(file: BinaryIO, lines: int) -> int:
    """Return where the last so many lines of a file begin."""
    position = file.seek(0, 2)
    # The end of the last line begins no further line.
    needed = lines + 1
    while position > 0:
        size = min(_BLOCK, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        newlines = block.count(b"\n")
        if newlines >= needed:
            place = len(block)
            for _ in range(needed):
                place = block.rindex(b"\n", 0, place)
            return position + place + 1
        needed -= newlines
    return 0


def read_end(path: Path) -> str | None:
    """Return the last lines of a log, without their times, as short as a termination message must be.

    None if the log cannot be read.
    """
    try:
        with path.open("rb") as file:
            file.seek(find_tail(file, ENDING_LINES))
            lines = file.read().splitlines()
    except OSError:
        return None
    return limit_message(b"\n".join(line[TIMESTAMP_WIDTH + 1 :] for line in lines))


def limit_message(text: bytes) -> str:
    """Return as much of the end of a text as a termination message may hold."""
    return text[-_ENDING_BYTES:].decode(errors="replace")
