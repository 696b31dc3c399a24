import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from modelplane.host import file_system
from modelplane.kubelet.pods.pods import stop_all
from modelplane.kubelet.records import AgentDirectory, Attempt, ContainerDirectory
from modelplane.kubelet.runtime import host_processes, other_processes
from modelplane.kubelet.runtime.launch import Launch
from modelplane.kubelet.runtime.other_processes import Process

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
print("up", flush=True)
time.sleep(99)
time.sleep(99)
"""


def sleeping(directory: Path) -> tuple[ContainerDirectory, Launch]:
    path = AgentDirectory(directory).get_pod("uid").get_container("engine")
    return path, Launch(("sleep", "100"), {"PATH": os.environ["PATH"]})


async def test_an_attempt_is_started_waited_for_and_counted(tmp_path: Path) -> None:
    kept, _ = sleeping(tmp_path)
    launch = Launch(
        (sys.executable, "-c", "import os; raise SystemExit(int(os.environ['CODE']))"), {"CODE": "4"}
    )
    numbers = []
    for _ in range(3):
        attempt = await host_processes.start_attempt(kept, launch)
        ended = await host_processes.wait_for_exit(attempt)
        numbers.append((attempt.number, ended.code, ended.supervised))
    assert numbers == [(0, 4, True), (1, 4, True), (2, 4, True)]
    assert [attempt.number for attempt in kept.list_attempts()] == [1, 2]


async def test_an_end_that_no_supervisor_saw_is_recorded_and_leaves_nothing_running(tmp_path: Path) -> None:
    kept, launch = sleeping(tmp_path)
    attempt = await host_processes.start_attempt(kept, launch)
    engine, supervisor = attempt.engine, attempt.shim
    assert engine is not None
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    ended = await asyncio.wait_for(host_processes.wait_for_exit(attempt), 10)
    assert (ended.code, ended.supervised) == (137, False)
    assert attempt.exit == ended
    await asyncio.wait_for(engine.wait(), 10)


async def test_a_settled_attempt_is_not_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, _ = sleeping(tmp_path)
    attempt = await host_processes.start_attempt(kept, Launch(("true",), {}))
    ended = await host_processes.wait_for_exit(attempt)
    killed: list[Process] = []
    monkeypatch.setattr(other_processes, "kill_session", killed.append)
    assert await host_processes.wait_for_exit(attempt) == ended
    assert stop_all(tmp_path, 0.1) == 0
    assert killed == []


async def test_an_attempt_remembers_the_image_it_runs(tmp_path: Path) -> None:
    kept, _ = sleeping(tmp_path)
    attempt = await host_processes.start_attempt(kept, Launch(("true",), {}, "engine:2"))
    await host_processes.wait_for_exit(attempt)
    assert attempt.image == "engine:2"


async def test_an_engine_has_no_file_of_the_agent_open(tmp_path: Path) -> None:
    kept, _ = sleeping(tmp_path)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    file_system.keep_private()
    attempt = await host_processes.start_attempt(
        kept, Launch(("ls", "-l", "/proc/self/fd"), {"PATH": os.environ["PATH"]})
    )
    await host_processes.wait_for_exit(attempt)
    os.close(descriptor)
    shown = attempt.log.read_text()
    assert f"-> {tmp_path}\n" not in shown
    assert len([line for line in shown.splitlines() if " -> " in line]) == 4, "three, and the listing's own"


async def test_a_supervisor_that_does_not_record_the_end_is_killed(tmp_path: Path) -> None:
    kept, launch = sleeping(tmp_path)
    attempt = await host_processes.start_attempt(kept, launch)
    supervisor = attempt.shim
    assert supervisor is not None
    supervisor.send(signal.SIGSTOP)
    await host_processes.kill_for_certain(attempt, record_s=0.2)
    assert (await asyncio.wait_for(host_processes.wait_for_exit(attempt), 5)).supervised is False


async def test_an_engine_ends_when_it_is_asked(tmp_path: Path) -> None:
    kept, launch = sleeping(tmp_path)
    attempt = await host_processes.start_attempt(kept, launch)
    host_processes.terminate_attempt(attempt)
    assert (await asyncio.wait_for(host_processes.wait_for_exit(attempt), 10)).code == 143


async def test_everything_of_a_directory_can_be_stopped_without_an_agent(tmp_path: Path) -> None:
    kept, launch = sleeping(tmp_path)
    gentle = await host_processes.start_attempt(kept, launch)
    other = AgentDirectory(tmp_path).get_pod("other").get_container("engine")
    stubborn = await host_processes.start_attempt(other, Launch((sys.executable, "-c", STUBBORN), {}))
    await _until_up(stubborn)
    assert stop_all(tmp_path, 0.3) == 2
    assert [_code(gentle), _code(stubborn)] == [143, 137]
    assert stop_all(tmp_path, 0.3) == 0


async def test_an_end_that_cannot_be_recorded_is_told_once_all_have_ended(tmp_path: Path) -> None:
    kept, launch = sleeping(tmp_path)
    attempts = [await host_processes.start_attempt(kept, launch) for _ in range(2)]
    unrecorded = attempts[0]
    assert unrecorded.shim is not None
    os.kill(unrecorded.shim.pid, signal.SIGKILL)
    (unrecorded.directory / ".exit.json").mkdir()  # as good as a full disk
    with pytest.raises(OSError, match=r"exit\.json"):
        stop_all(tmp_path, 0.3)
    assert _code(attempts[1]) == 143
    (unrecorded.directory / ".exit.json").rmdir()
    stop_all(tmp_path, 0.3)
    assert _code(unrecorded) == 137


async def _until_up(attempt: Attempt) -> None:
    async with asyncio.timeout(10):
        while not (attempt.log.exists() and attempt.log.read_text()):
            await asyncio.sleep(0.01)


def _code(attempt: Attempt) -> int:
    ended = attempt.exit
    assert ended is not None
    return ended.code
