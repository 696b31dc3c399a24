"""Files of usage records: rotation that loses nothing, and reading while it happens."""

import asyncio
import os
from pathlib import Path

import pytest

from modelplane.gateway.route_table import Listener
from modelplane.gateway.usage.usage_sums import MOST_LINE_BYTES
from modelplane.host.errors import LocalError
from modelplane.proxy import admin, envoy_bootstrap, envoy_directory
from modelplane.proxy.envoy_directory import USAGE_LOG, Rotation


class Envoy:
    """A process that keeps its file open, and opens the path again when it is asked to."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / USAGE_LOG
        self.file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self.answers = True
        self.asked = 0

    def write(self, *lines: str) -> None:
        os.write(self.file, "".join(f"{line}\n" for line in lines).encode())

    def reopen(self, _directory: Path) -> None:
        if not self.answers:
            raise LocalError("no answer")
        self.asked += 1
        os.close(self.file)
        self.file = os.open(self._path, os.O_WRONLY | os.O_APPEND)


@pytest.fixture
def envoy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Envoy:
    envoy_directory.prepare(tmp_path)
    running = Envoy(tmp_path)
    monkeypatch.setattr(admin, "reopen_logs", running.reopen)
    return running


def read(directory: Path) -> list[str]:
    return [line.decode().rstrip("\n") for line in envoy_directory.read_lines(directory)]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "usage").iterdir())


def test_only_the_owner_can_read_the_records(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        envoy_directory.prepare(tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "usage").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / USAGE_LOG).stat().st_mode & 0o777 == 0o600


def test_a_long_file_is_renamed_and_envoy_opens_the_next(tmp_path: Path, envoy: Envoy) -> None:
    rotation = Rotation(tmp_path, most_bytes=4, kept=2)
    rotation.look()
    assert names(tmp_path) == ["usage.jsonl"]
    for number in range(4):
        envoy.write(f"line {number}")
        rotation.look()
    assert names(tmp_path) == ["usage.00000003.jsonl", "usage.00000004.jsonl", "usage.jsonl"]
    assert read(tmp_path) == ["line 2", "line 3"]
    envoy.write("line 4")
    assert read(tmp_path) == ["line 2", "line 3", "line 4"]


def test_nothing_is_lost_while_envoy_does_not_answer(tmp_path: Path, envoy: Envoy) -> None:
    rotation = Rotation(tmp_path, most_bytes=4, kept=2)
    envoy.answers = False
    for number in range(10):
        envoy.write(f"line {number}")
        rotation.look()
    assert names(tmp_path) == ["usage.00000001.jsonl", "usage.jsonl"]
    envoy.answers = True
    rotation.look()
    envoy.write("line 10")
    assert read(tmp_path) == [f"line {number}" for number in range(11)]


def test_a_rotation_that_was_interrupted_is_completed_by_the_next_process(
    tmp_path: Path, envoy: Envoy
) -> None:
    envoy.write("one")
    (tmp_path / USAGE_LOG).rename(tmp_path / "usage" / "usage.00000001.jsonl")
    envoy.write("two")
    assert read(tmp_path) == ["one", "two"]
    rotation = Rotation(tmp_path)
    rotation.look()
    envoy.write("three")
    assert read(tmp_path) == ["one", "two", "three"]
    assert (tmp_path / USAGE_LOG).read_text() == "three\n"
    rotation.look()
    assert envoy.asked == 1


def test_a_folder_that_was_deleted_comes_back(tmp_path: Path, envoy: Envoy) -> None:
    rotation = Rotation(tmp_path)
    rotation.look()
    (tmp_path / USAGE_LOG).unlink()
    (tmp_path / "usage").rmdir()
    rotation.look()
    envoy.write("one")
    assert read(tmp_path) == ["one"]


async def test_a_disk_that_cannot_be_written_is_told_once(
    tmp_path: Path, envoy: Envoy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_self: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    envoy.write("one")
    rotation = Rotation(tmp_path, most_bytes=1)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", full)
        for _ in range(3):
            await asyncio.to_thread(rotation._try)
    assert caplog.text.count("cannot rotate") == 1
    rotation._try()
    assert read(tmp_path) == ["one"]
    assert len(names(tmp_path)) == 2


def test_a_file_that_is_rotated_while_it_is_read_is_read_once(tmp_path: Path, envoy: Envoy) -> None:
    envoy.write("one")
    rotation = Rotation(tmp_path, most_bytes=1)
    rotation.look()
    envoy.write("two", "three")
    reading = envoy_directory.read_lines(tmp_path)
    assert next(reading) == b"one\n"
    rotation.look()
    envoy.write("four")
    assert list(reading) == [b"two\n", b"three\n"]
    assert read(tmp_path) == ["one", "two", "three", "four"]


def test_a_file_that_is_rotated_between_the_looks_of_a_reader_is_read_once(
    tmp_path: Path, envoy: Envoy, monkeypatch: pytest.MonkeyPatch
) -> None:
    envoy.write("one")
    rotation = Rotation(tmp_path, most_bytes=1)
    listed = envoy_directory.list_rotated

    def rotated(directory: Path) -> list[Path]:
        monkeypatch.setattr(envoy_directory, "list_rotated", listed)
        rotation.look()
        return listed(directory)

    monkeypatch.setattr(envoy_directory, "list_rotated", rotated)
    assert read(tmp_path) == ["one"]


def test_a_line_without_end_takes_no_memory_and_hides_no_other(tmp_path: Path, envoy: Envoy) -> None:
    envoy.write("one", "x" * (3 * MOST_LINE_BYTES), "two")
    first, second, third = envoy_directory.read_lines(tmp_path)
    assert (first, third) == (b"one\n", b"two\n")
    assert len(second) == MOST_LINE_BYTES + 1


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path, envoy: Envoy) -> None:
    for name in ("usage.00000001.jsonl.gz", "usage.old.jsonl", "usage.1.jsonl", "notes"):
        (tmp_path / "usage" / name).write_text("mine\n")
    envoy.write("one")
    Rotation(tmp_path, most_bytes=1, kept=1).look()
    assert len(names(tmp_path)) == 6
    assert read(tmp_path) == ["one"]


@pytest.mark.parametrize(("before", "after"), [("", ""), ("one\n", "one\n"), ("one\ntw", "one\ntw\n")])
def test_a_line_that_a_crash_cut_off_does_not_swallow_the_next(
    tmp_path: Path, before: str, after: str
) -> None:
    envoy_directory.prepare(tmp_path)
    (tmp_path / USAGE_LOG).write_text(before)
    envoy_bootstrap.prepare(tmp_path, (Listener("front-door", "127.0.0.1", 80, usage_log=USAGE_LOG),))
    assert (tmp_path / USAGE_LOG).read_text() == after


def test_an_envoy_that_keeps_no_records_gets_no_folder(tmp_path: Path) -> None:
    envoy_bootstrap.prepare(tmp_path, (Listener("front-door", "127.0.0.1", 80),))
    assert not (tmp_path / "usage").exists()


def test_an_envoy_starts_without_room_for_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_directory: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(envoy_directory, "prepare", full)
    envoy_bootstrap.prepare(tmp_path, (Listener("front-door", "127.0.0.1", 80, usage_log=USAGE_LOG),))
    assert envoy_bootstrap.is_prepared(tmp_path)
