"""Schedules: bounds of the number of replicas in windows of time, which begin as a cron expression says.

A window begins by the clock of its time zone and lasts a number of seconds, whatever the clock does
meanwhile. Where the clock goes forward over the beginning, the window begins with the first moment after
that; where it goes back, the window begins the first time (Debian's cron).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim, CronSimError

_LONGEST = timedelta(hours=1)
"""Time after which bounds are looked at again in any case, since clocks are also set."""

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Bounds in windows of time; None leaves a bound as it is."""

    name: str
    cron: str
    zone: tzinfo
    duration_s: int
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a number of replicas, and the schedules whose windows are open."""

    least: int
    most: int
    until: datetime
    """Time before which nothing of it changes."""
    open: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Invalid:
    """A schedule that cannot be followed, and why."""

    name: str
    cause: str

    def __str__(self) -> str:
        return f'spec.schedules: the schedule "{self.name}" {self.cause}'


def find_bounds(schedules: Iterable[Schedule], least: int, most: int, now: datetime) -> Bounds | Invalid:
    """Return the bounds at a time.

    Open windows replace the bounds that they have. Of several, the largest minimum and the largest maximum
    count, and a minimum above the maximum raises that.
    """
    opened: list[Schedule] = []
    until = now + _LONGEST
    for schedule in schedules:
        after = now - timedelta(seconds=schedule.duration_s)
        try:
            starts = CronSim(schedule.cron, after.astimezone(schedule.zone))
            # The first window that has not ended. Where the clock goes back, the search begins with a time of
            # the same name that has passed.
            begin = next((utc for start in starts if (utc := start.astimezone(UTC)) > after), _NEVER)
        except CronSimError as error:
            cause = f'has the cron expression "{schedule.cron}", which never matches: {error}'
            return Invalid(schedule.name, cause)
        if begin <= now:
            opened.append(schedule)
            begin += timedelta(seconds=schedule.duration_s)
        until = min(until, begin)
    least = max((entry.least for entry in opened if entry.least is not None), default=least)
    most = max((entry.most for entry in opened if entry.most is not None), default=most)
    return Bounds(least, max(least, most), until, tuple(entry.name for entry in opened))
