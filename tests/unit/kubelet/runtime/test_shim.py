import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from modelplane.kubelet.runtime import shim


def run(directory: Path, *command: str, go: bytes = shim.GO) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", shim.__file__, str(directory), str(directory), *command],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(go)
    process.stdin.close()
    return process


def record(directory: Path, name: str) -> Any:
    deadline = time.monotonic() + 10
    while not (directory / name).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return json.loads((directory / name).read_text())


def lines(directory: Path) -> list[str]:
    text = (directory / "log").read_text()
    return [line[shim.TIMESTAMP_WIDTH + 1 :] for line in text.splitlines()]


def test_the_output_and_the_end_of_an_engine_are_recorded(tmp_path: Path) -> None:
    run(tmp_path, "sh", "-c", "echo one; echo two >&2; printf three; exit 7").wait(10)
    assert lines(tmp_path) == ["one", "two", "three"]
    ended = record(tmp_path, "exit.json")
    assert (ended["exitCode"], ended["signal"]) == (7, 0)
    assert ended["finishedAt"] >= record(tmp_path, "engine.json")["startedAt"]


def test_nothing_starts_unless_it_is_released(tmp_path: Path) -> None:
    run(tmp_path, "touch", str(tmp_path / "started"), go=b"").wait(10)
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_does_not_exist_ends_as_in_a_shell(tmp_path: Path) -> None:
    run(tmp_path, "no-such-program").wait(10)
    assert record(tmp_path, "exit.json")["exitCode"] == 127
    assert lines(tmp_path) == ["cannot start 'no-such-program': No such file or directory"]


def test_a_signal_is_an_exit_code_above_128(tmp_path: Path) -> None:
    process = run(tmp_path, "sleep", "100")
    os.kill(record(tmp_path, "engine.json")["pid"], signal.SIGKILL)
    process.wait(10)
    ended = record(tmp_path, "exit.json")
    assert (ended["exitCode"], ended["signal"]) == (137, 9)


def test_an_engine_that_is_killed_before_it_is_released_has_ended(tmp_path: Path) -> None:
    kill_when_recorded = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
import shim
write = shim.write_record
def write_and_kill(path, record):
    write(path, record)
    if path.name == "engine.json":
        os.kill(record["pid"], signal.SIGKILL)
        os.waitid(os.P_PID, record["pid"], os.WEXITED | os.WNOWAIT)
shim.write_record = write_and_kill
shim.main(sys.argv[1:])
"""
    module = Path(shim.__file__)
    arguments = [str(module.parent), str(tmp_path), str(tmp_path), "touch", str(tmp_path / "started")]
    ended = subprocess.run([sys.executable, "-c", kill_when_recorded, *arguments], input=shim.GO, check=False)
    assert ended.returncode == 0
    assert record(tmp_path, "exit.json")["exitCode"] == 137
    assert not (tmp_path / "started").exists()


def test_a_request_to_end_goes_on_to_the_engine(tmp_path: Path) -> None:
    process = run(tmp_path, "sleep", "100")
    record(tmp_path, "engine.json")
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert record(tmp_path, "exit.json")["exitCode"] == 143


def test_what_an_engine_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    process = run(tmp_path, "sh", "-c", "sleep 100 & echo $!; exit 0")
    process.wait(5)
    assert shim.read_identity(int(lines(tmp_path)[0])) == ""
    assert record(tmp_path, "exit.json")["exitCode"] == 0


def test_a_log_is_set_aside_when_it_has_become_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim, "_LOG_BYTES", 100)
    log = shim._Log(tmp_path / "log")
    for word in ("first", "second", "third"):
        log.take(word.encode() + b"\n")
    kept = (tmp_path / "log.1").read_text() + (tmp_path / "log").read_text()
    assert [line[shim.TIMESTAMP_WIDTH + 1 :] for line in kept.splitlines()] == ["first", "second", "third"]
    assert (tmp_path / "log.1").stat().st_size <= 100


def test_a_line_without_an_end_is_broken(tmp_path: Path) -> None:
    log = shim._Log(tmp_path / "log")
    log.take(b"x" * 40_000)
    log.finish()
    assert [len(line) for line in lines(tmp_path)] == [16384, 16384, 7232]


def test_a_time_is_always_equally_wide() -> None:
    assert shim.format_timestamp(0) == "1970-01-01T00:00:00.000000000Z"
    assert shim.format_timestamp(1_700_000_000_000_000_001) == "2023-11-14T22:13:20.000000001Z"
    assert len(shim.format_timestamp(0)) == shim.TIMESTAMP_WIDTH


def test_a_process_is_told_from_others() -> None:
    assert shim.read_identity(os.getpid()) == shim.read_identity(os.getpid())
    assert shim.read_identity(os.getpid()) != shim.read_identity(1)
    assert shim.read_identity(2**22 + 1) == ""
