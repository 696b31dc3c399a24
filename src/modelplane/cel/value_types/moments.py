"""Timestamps and durations, exact to the nanosecond as in Go.

Every form that Go's `time` package accepts is accepted; a value outside its range is an error.

Sources: Go's documentation of `time.ParseDuration` and of RFC 3339 parsing (which allows a comma before the
fraction, an hour of one digit and offsets of up to a day), cel-go v0.26
`common/types/{timestamp,duration}.go`.
"""

import datetime as dt
import re
from dataclasses import dataclass, field
from typing import Final

from modelplane.cel.errors import EvaluationError
from modelplane.cel.value_types.numbers import MAX_INT, MIN_INT, integer

_SECOND: Final = 10**9
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)", re.ASCII)
_INSTANT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST: Final = -62135596800  # the first second of the year 1
_LAST: Final = 253402300799  # the last second of the year 9999


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time."""

    nanoseconds: int

    def __str__(self) -> str:
        sign, rest = ("-" if self.nanoseconds < 0 else ""), abs(self.nanoseconds)
        return f"{sign}{rest // _SECOND}{_fraction(rest % _SECOND)}s"

    def whole(self, unit: int) -> int:
        """Return the number of whole units in it, towards zero."""
        count = abs(self.nanoseconds) // unit
        return -count if self.nanoseconds < 0 else count


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, in nanoseconds since 1970 in UTC. `offset` is of the zone it was written in, in seconds."""

    nanoseconds: int
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        seconds, rest = divmod(self.nanoseconds, _SECOND)
        zone = "Z"
        if self.offset:
            hours, minutes = divmod(abs(self.offset) // 60, 60)
            zone = f"{'-' if self.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
        shown = _EPOCH + dt.timedelta(seconds=seconds + self.offset)
        return f"{shown.replace(tzinfo=None).isoformat(timespec='seconds')}{_fraction(rest)}{zone}"

    @property
    def seconds(self) -> int:
        """Whole seconds since 1970."""
        return self.nanoseconds // _SECOND


def duration(text: str) -> Duration:
    """Return the duration that the text denotes. Raises EvaluationError."""
    sign, rest = (-1 if text.startswith("-") else 1), text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    total = position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]):
            break
        unit = _UNITS[part[3]]
        fraction = (part[2] or "")[:30]
        total += int(part[1][:30] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        position = part.end()
    if not rest or position < len(rest) or not MIN_INT <= sign * total <= MAX_INT:
        raise EvaluationError(f'"{text}" is not a duration: write a number and a unit, such as 90m or 1.5s')
    return Duration(sign * total)


def timestamp(text: str) -> Timestamp:
    """Return the moment that the text denotes. Raises EvaluationError."""
    found = _INSTANT.fullmatch(text)
    problem = f'"{text}" is not a timestamp: write it as 2006-01-02T15:04:05Z'
    if found is None:
        raise EvaluationError(problem)
    year, month, day, hour, minute, second = (int(found[index]) for index in range(1, 7))
    offset = (int(found[9]) * 60 + int(found[10])) * 60 if found[8] else 0
    offset = -offset if found[8] == "-" else offset
    try:
        at = dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC)
    except ValueError as error:
        raise EvaluationError(problem) from error
    if found[8] and (int(found[9]) > 24 or int(found[10]) > 60):
        raise EvaluationError(problem)
    seconds = round((at - _EPOCH).total_seconds()) - offset
    fraction = int((found[7] or "")[:9].ljust(9, "0"))
    return instant(seconds * _SECOND + fraction, offset)


def instant(nanoseconds: int, offset: int = 0) -> Timestamp:
    """Return a moment. Raises EvaluationError outside the years 1 to 9999."""
    if not _FIRST <= nanoseconds // _SECOND <= _LAST:
        raise EvaluationError("a timestamp is outside the years 1 to 9999")
    return Timestamp(nanoseconds, offset)


def from_seconds(seconds: int) -> Timestamp:
    """Return the moment that many seconds after 1970. Raises EvaluationError."""
    return instant(seconds * _SECOND)


def sum_of(left: Duration, right: Duration) -> Duration:
    """Add two durations. Raises EvaluationError."""
    return Duration(integer(left.nanoseconds + right.nanoseconds))


def difference(left: Duration, right: Duration) -> Duration:
    """Subtract two durations. Raises EvaluationError."""
    return Duration(integer(left.nanoseconds - right.nanoseconds))


def moved(moment: Timestamp, by: Duration) -> Timestamp:
    """Return the moment that much later. Raises EvaluationError."""
    return instant(moment.nanoseconds + by.nanoseconds, moment.offset)


def moved_back(moment: Timestamp, by: Duration) -> Timestamp:
    """Return the moment that much earlier. Raises EvaluationError."""
    return instant(moment.nanoseconds - by.nanoseconds, moment.offset)


def between(later: Timestamp, earlier: Timestamp) -> Duration:
    """Return the time from the second moment to the first. Raises EvaluationError."""
    return Duration(integer(later.nanoseconds - earlier.nanoseconds))


def local(moment: Timestamp, zone: str) -> dt.datetime:
    """Return the date and time in a zone given as its offset or its name. Raises EvaluationError."""
    sign, rest = (-1 if zone.startswith("-") else 1), zone.lstrip("+-")
    hours, colon, minutes = rest.partition(":")
    if colon and hours.isascii() and hours.isdecimal() and minutes.isascii() and minutes.isdecimal():
        shift = dt.timedelta(minutes=sign * (int(hours[:4]) * 60 + int(minutes[:4])))
    elif zone in ("", "UTC"):
        shift = dt.timedelta()
    else:
        raise EvaluationError(f'the time zone "{zone}" is not known: write an offset, such as +02:00')
    try:
        return _EPOCH + dt.timedelta(microseconds=moment.nanoseconds // 1000) + shift
    except OverflowError as error:
        raise EvaluationError("a timestamp is outside the years 1 to 9999") from error


def _fraction(nanoseconds: int) -> str:
    return f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
