from datetime import UTC, datetime, timedelta, timezone

import pytest

from modelplane.local.supervision.process_logs import parse_time, read_lines

TOKYO = timezone(timedelta(hours=9))
NOW = datetime(2027, 1, 1, 0, 30, tzinfo=TOKYO)


@pytest.mark.parametrize(
    ("line", "moment"),
    [
        pytest.param(
            b"2026-12-31 23:59:58,123 INFO modelplane.kubelet.main: registered",
            datetime(2026, 12, 31, 23, 59, 58, 123000, TOKYO),
            id="our own are in local time",
        ),
        pytest.param(
            b"2026-12-31T23:59:58+0900 etcd: exited with status 1",
            datetime(2026, 12, 31, 23, 59, 58, 0, TOKYO),
            id="the supervisor's name their zone",
        ),
        pytest.param(
            b'{"level":"info","ts":"2026-12-31T14:59:58.123456Z","msg":"ready"}',
            datetime(2026, 12, 31, 14, 59, 58, 123456, UTC),
            id="etcd's are in UTC",
        ),
        pytest.param(
            b"[2026-12-31 23:59:58.123][7][warning][main] deprecated",
            datetime(2026, 12, 31, 23, 59, 58, 123000, TOKYO),
            id="Envoy's are in brackets",
        ),
        pytest.param(
            b"W1231 23:59:58.123456   11849 options.go:263] unspecified",
            datetime(2026, 12, 31, 23, 59, 58, 123456, TOKYO),
            id="Kubernetes' leave out the year, which may be the last one",
        ),
        pytest.param(b"I0229 00:00:00.000000 7 a.go:1] b", None, id="a day that neither year has"),
        pytest.param(b"Traceback (most recent call last):", None, id="a line without a time"),
        pytest.param(b"\xff\xfe", None, id="what is no text"),
    ],
)
def test_each_program_tells_its_time_in_its_own_way(line, moment):
    assert parse_time(line, NOW) == moment


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "controller.log"
    path.write_bytes(
        b"2026-01-01 10:00:00,000 old\n  of the old one\n2026-01-01 11:00:00,000 new\n  of it\nend"
    )
    return path


def test_a_log_is_all_its_lines_the_last_without_an_end_too(log):
    assert [line[-3:] for line in read_lines(log)] == [b"old", b"one", b"new", b" it", b"end"]


def test_of_the_last_lines_only_those_are_wanted(log):
    log.write_bytes(log.read_bytes() + b"\n")
    assert list(read_lines(log, tail=2)) == [b"  of it", b"end"]


def test_a_line_without_a_time_belongs_to_the_one_before(log):
    since = datetime(2026, 1, 1, 10, 30).astimezone()
    assert list(read_lines(log, since=since)) == [b"2026-01-01 11:00:00,000 new", b"  of it", b"end"]


def test_what_is_followed_goes_on_in_the_file_that_takes_its_place(log):
    followed = read_lines(log, tail=1, follow=True)
    log.write_bytes(log.read_bytes() + b"\n")
    assert next(followed) == b"end"
    with log.open("ab") as file:
        file.write(b"before\n")
    log.replace(log.with_name("controller.log.1"))
    log.write_bytes(b"after\n")
    assert [next(followed), next(followed)] == [b"before", b"after"]
    followed.close()


def test_a_log_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        list(read_lines(tmp_path / "absent.log"))
