import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from modelplane.kubelet import log_files
from modelplane.kubelet.log_files import Selection
from modelplane.kubelet.log_server import parse_selection
from modelplane.kubelet.runtime.shim import format_timestamp


def line(second: int, text: str) -> str:
    return f"{format_timestamp(second * 1_000_000_000)} {text}\n"


def log_of(path: Path, count: int) -> Path:
    path.write_text("".join(line(number, f"line {number}") for number in range(count)))
    return path


async def read(path: Path, selection: Selection) -> str:
    return b"".join([part async for part in log_files.read(path, selection)]).decode()


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        pytest.param(Selection(), "line 0\nline 1\nline 2\n", id="everything"),
        pytest.param(Selection(tail_lines=1), "line 2\n", id="the last line"),
        pytest.param(Selection(tail_lines=9), "line 0\nline 1\nline 2\n", id="more lines than there are"),
        pytest.param(Selection(tail_lines=0), "", id="no line"),
        pytest.param(Selection(since=format_timestamp(1_000_000_000)), "line 1\nline 2\n", id="since a time"),
        pytest.param(Selection(limit_bytes=9), "line 0\nli", id="a number of bytes"),
        pytest.param(Selection(tail_lines=1, timestamps=True), line(2, "line 2"), id="with times"),
    ],
)
async def test_a_part_of_a_log(tmp_path: Path, selection: Selection, text: str) -> None:
    assert await read(log_of(tmp_path / "log", 3), selection) == text


async def test_the_end_of_a_long_log_is_found(tmp_path: Path) -> None:
    path = log_of(tmp_path / "log", 5000)
    expected = "".join(f"line {number}\n" for number in range(1500, 5000))
    assert await read(path, Selection(tail_lines=3500)) == expected


async def test_no_log_is_an_empty_log(tmp_path: Path) -> None:
    assert await read(tmp_path / "none", Selection()) == ""
    assert log_files.read_end(tmp_path / "none") is None


async def test_following_goes_on_over_a_rotation_until_the_end(tmp_path: Path) -> None:
    path = log_of(tmp_path / "log", 1)
    ended = asyncio.Event()
    parts: list[bytes] = []
    following = asyncio.create_task(_follow(path, ended, parts))
    await _until(parts, b"line 0\n")
    path.rename(tmp_path / "log.1")
    path.write_text(line(1, "line 1"))
    await _until(parts, b"line 0\nline 1\n")
    with path.open("a") as file:
        file.write(line(2, "line 2"))
    ended.set()
    await asyncio.wait_for(following, 5)
    assert b"".join(parts) == b"line 0\nline 1\nline 2\n"


async def test_what_is_written_around_a_rotation_just_before_the_end_is_read(tmp_path: Path) -> None:
    path = log_of(tmp_path / "log", 1)
    ended = asyncio.Event()
    parts: list[bytes] = []
    following = asyncio.create_task(_follow(path, ended, parts))
    await _until(parts, b"line 0\n")
    for _ in range(10):
        await asyncio.sleep(0)  # it waits for more
    with path.open("a") as file:
        file.write(line(1, "line 1"))
    path.rename(tmp_path / "log.1")
    path.write_text(line(2, "line 2, of a crash"))
    ended.set()
    await asyncio.wait_for(following, 5)
    assert b"".join(parts) == b"line 0\nline 1\nline 2, of a crash\n"


async def _follow(path: Path, ended: asyncio.Event, parts: list[bytes]) -> None:
    async for part in log_files.read(path, Selection(), ended.is_set):
        parts.append(part)  # noqa: PERF401 - looked at while it grows


async def _until(parts: list[bytes], expected: bytes) -> None:
    async with asyncio.timeout(5):
        while b"".join(parts) != expected:
            await asyncio.sleep(0.01)


def test_the_ending_is_short_and_without_times(tmp_path: Path) -> None:
    assert log_files.read_end(log_of(tmp_path / "log", 99)) == "\n".join(f"line {n}" for n in range(19, 99))
    (tmp_path / "wide").write_text(line(0, "x" * 5000))
    assert log_files.read_end(tmp_path / "wide") == "x" * 2048


NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "selection"),
    [
        pytest.param({}, Selection(), id="nothing asked"),
        pytest.param(
            {"tailLines": "5", "limitBytes": "10", "timestamps": "true"},
            Selection(tail_lines=5, limit_bytes=10, timestamps=True),
            id="numbers and switches",
        ),
        pytest.param(
            {"sinceSeconds": "60"}, Selection(since="2026-01-01T00:00:00.000000000Z"), id="seconds ago"
        ),
        pytest.param(
            {"sinceTime": "2026-01-01T02:00:00+01:00"},
            Selection(since="2026-01-01T01:00:00.000000000Z"),
            id="a time of another zone",
        ),
    ],
)
def test_the_options_of_a_request(query: dict[str, str], selection: Selection) -> None:
    assert parse_selection(query, NOW) == selection


@pytest.mark.parametrize(
    "query",
    [
        pytest.param({"tailLines": "-1"}, id="a negative number"),
        pytest.param({"tailLines": "x"}, id="no number"),
        pytest.param({"sinceTime": "yesterday"}, id="no time"),
    ],
)
def test_an_option_that_cannot_be_read(query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"tailLines|invalid literal|Invalid isoformat"):
        parse_selection(query, NOW)
