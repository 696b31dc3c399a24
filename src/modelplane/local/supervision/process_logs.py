"""The log of one process of a local fleet, as its supervisor has it written.

Each program has its own format. For recent lines only, a line's own time decides; a line without a time
belongs to the line before it.
"""

import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from modelplane.kubelet.log_files import find_tail, is_replaced

_BLOCK = 64 * 1024

# Ours (logging, and the supervisor's own), Envoy's in brackets, etcd's JSON; without a zone it is local time.
_DATED = re.compile(
    r'(?:\[|\{"level":"\w+","ts":")?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?(Z|[+-]\d{4})?'
)
# Kubernetes' (klog), which leaves out the year.
_YEARLESS = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d{6})")


def parse_time(line: bytes, now: datetime) -> datetime | None:
    """Return the time of a line, None if it has none; ``now`` gives the year and the time zone."""
    text = line[:80].decode(errors="replace")
    if match := _DATED.match(text):
        date, clock, fraction, zone = match.groups()
        return _moment(f"{date}T{clock}.{(fraction or '').ljust(6, '0')}{zone or ''}", now)
    if match := _YEARLESS.match(text):
        month, day, clock, fraction = match.groups()
        years = (
            _moment(f"{year}-{month}-{day}T{clock}.{fraction}", now) for year in (now.year, now.year - 1)
        )
        return next((moment for moment in years if moment is not None and moment <= now), None)
    return None


def _moment(text: str, now: datetime) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:  # such as the 29th of February of another year
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)


def read_lines(
    log: Path, *, tail: int | None = None, since: datetime | None = None, follow: bool = False
) -> Iterator[bytes]:
    """Yield the lines of a log: of the last ``tail``, those written at ``since`` or later.

    With ``follow``, also those that come, until the caller ends it. Raises ``OSError`` where there is no log.
    """
    recent = since is None
    for line in _lines(log, tail, follow=follow):
        if not recent and since is not None:
            moment = parse_time(line, datetime.now().astimezone())
            recent = moment is not None and moment >= since
        if recent:
            yield line


def _lines(log: Path, tail: int | None, *, follow: bool) -> Iterator[bytes]:
    file = log.open("rb")
    try:
        if tail is not None:
            file.seek(find_tail(file, tail))
        unfinished = b""
        while True:
            # Check before reading: what was written before the rotation is read then.
            rotated = is_replaced(log, file)
            while block := file.read(_BLOCK):
                *whole, unfinished = (unfinished + block).split(b"\n")
                yield from whole
            if not follow:
                break
            if rotated:
                file.close()
                file = log.open("rb")
            else:
                time.sleep(0.2)
        if unfinished:
            yield unfinished
    finally:
        file.close()
