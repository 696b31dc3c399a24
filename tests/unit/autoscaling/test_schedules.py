"""Windows of schedules, also where the clock changes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from modelplane.deciders.autoscaling.schedules import Bounds, Invalid, Schedule, find_bounds

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3600


def windows(cron: str, hours: int, begin: str, end: str, zone: ZoneInfo = BERLIN) -> Iterator[str]:
    """Yield the windows that begin between two times, with their length in hours."""
    schedule = Schedule("busy", cron, zone, hours * HOUR, least=2)
    now, last = datetime.fromisoformat(begin).replace(tzinfo=UTC), datetime.fromisoformat(end)
    opened: datetime | None = None
    was_open = True
    while now < last.replace(tzinfo=UTC):
        found = find_bounds([schedule], 1, 8, now)
        assert isinstance(found, Bounds)
        is_open = bool(found.open)
        assert found.least == (2 if is_open else 1)
        if is_open and not was_open:
            opened = now
        elif not is_open and opened is not None:
            length = (now - opened) / timedelta(hours=1)
            yield f"{opened.astimezone(zone).isoformat(timespec='minutes')} {length:g}"
            opened = None
        was_open = is_open
        now += timedelta(minutes=10)


@pytest.mark.parametrize(
    ("cron", "hours", "begin", "end", "expected"),
    [
        pytest.param(
            *("0 8 * * 1-5", 10, "2026-03-27", "2026-03-31"),
            ["2026-03-27T08:00+01:00 10", "2026-03-30T08:00+02:00 10"],
            id="working days keep their hour when summer begins",
        ),
        pytest.param(
            *("30 2 * * *", 1, "2026-03-28", "2026-03-31"),
            ["2026-03-28T02:30+01:00 1", "2026-03-29T03:00+02:00 1", "2026-03-30T02:30+02:00 1"],
            id="a time that the clock skips is when it has done so",
        ),
        pytest.param(
            *("30 2 * * *", 1, "2026-10-24", "2026-10-27"),
            ["2026-10-24T02:30+02:00 1", "2026-10-25T02:30+02:00 1", "2026-10-26T02:30+01:00 1"],
            id="a time that comes twice is the first one",
        ),
        pytest.param(
            *("30 1 * * *", 3, "2026-10-24T12:00", "2026-10-25T12:00"),
            ["2026-10-25T01:30+02:00 3"],
            id="a window lasts as long over the change",
        ),
        pytest.param(
            *("30 2 * * *", 23, "2026-10-24T06:00", "2026-10-27T02:00"),
            ["2026-10-25T02:30+02:00 23", "2026-10-26T02:30+01:00 23"],
            id="the search begins in the hour that comes twice",
        ),
        pytest.param(
            *("0 0 1 1 *", 1, "2026-12-31", "2027-01-02"), ["2027-01-01T00:00+01:00 1"], id="once a year"
        ),
    ],
)
def test_a_window_begins_by_the_clock_of_its_zone(
    cron: str, hours: int, begin: str, end: str, expected: list[str]
) -> None:
    assert list(windows(cron, hours, begin, end)) == expected


NOW = datetime(2026, 11, 24, 10, 30, tzinfo=UTC)


def at(name: str, minute: int = 0, **limits: int) -> Schedule:
    return Schedule(name, f"{minute} * * * *", ZoneInfo("UTC"), HOUR // 2, **limits)


@pytest.mark.parametrize(
    ("schedules", "expected"),
    [
        pytest.param([], (1, 8, ()), id="none"),
        pytest.param([at("past", 0, least=5)], (1, 8, ()), id="a window ends with its last second"),
        pytest.param([at("now", 30, least=0, most=3)], (0, 3, ("now",)), id="it begins with its first"),
        pytest.param([at("a", 10, least=2), at("b", 20, least=5)], (5, 8, ("a", "b")), id="largest minimum"),
        pytest.param([at("a", 10, most=2), at("b", 20, most=5)], (1, 5, ("a", "b")), id="largest maximum"),
        pytest.param([at("a", 10, least=6), at("b", 20, most=5)], (6, 6, ("a", "b")), id="the minimum wins"),
    ],
)
def test_open_windows_replace_the_bounds_that_they_have(
    schedules: list[Schedule], expected: tuple[int, int, tuple[str, ...]]
) -> None:
    found = find_bounds(schedules, 1, 8, NOW)
    assert isinstance(found, Bounds)
    assert (found.least, found.most, found.open) == expected


@pytest.mark.parametrize(
    ("schedules", "minutes"),
    [
        pytest.param([], 60, id="without a schedule, an hour"),
        pytest.param([at("open", 20)], 20, id="the end of an open window"),
        pytest.param([at("closed", 45)], 15, id="the beginning of the next one"),
        pytest.param([at("open", 20), at("closed", 45)], 15, id="whichever is sooner"),
    ],
)
def test_bounds_are_good_until_a_window_can_begin_or_end(schedules: list[Schedule], minutes: int) -> None:
    found = find_bounds(schedules, 1, 8, NOW)
    assert isinstance(found, Bounds)
    assert found.until - NOW == timedelta(minutes=minutes)


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "60 * * * *", "* * *", "", "0 8 * * MOO"])
def test_a_cron_expression_without_a_time_is_told(cron: str) -> None:
    found = find_bounds([Schedule("odd", cron, BERLIN, HOUR, least=2)], 1, 8, NOW)
    assert isinstance(found, Invalid)
    assert str(found).startswith(
        f'spec.schedules: the schedule "odd" has the cron expression "{cron}", which never matches: '
    )
