import os
import signal
import subprocess
import sys
import time

import pytest

from modelplane.local.supervision import locks

# Takes the lock, then becomes another program, as the supervisor's children do.
_HOLD = """
import os, sys
from pathlib import Path
from modelplane.local.supervision import locks
taken = locks.take(Path(sys.argv[1]))
if taken is not None:
    os.set_inheritable(taken, True)
os.execvp("sh", ["sh", "-c", "echo taken; read end"] if taken is not None else ["sh", "-c", "echo refused"])
"""


@pytest.fixture
def holding(tmp_path):
    path = tmp_path / "some.lock"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "taken\n"
        yield path, process
        process.kill()


def test_a_lock_survives_exec_and_names_its_holder(holding):
    path, process = holding
    assert locks.find_holder(path) == process.pid


def test_a_held_lock_is_refused_to_others(holding):
    path, _ = holding
    assert locks.take(path) is None
    assert subprocess.check_output([sys.executable, "-c", _HOLD, path], text=True) == "refused\n"


def test_a_lock_is_free_the_moment_its_holder_is_killed_even_before_it_is_reaped(holding):
    path, process = holding
    pidfd = os.pidfd_open(process.pid)
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
    os.close(pidfd)
    assert locks.find_holder(path) is None


def test_one_who_waits_gets_the_lock_when_its_holder_dies(holding):
    path, process = holding
    child = os.fork()
    if child == 0:
        locks.wait_for(path)
        time.sleep(60)
        os._exit(0)
    try:
        process.kill()
        process.wait()
        deadline = time.monotonic() + 5
        while locks.find_holder(path) != child and time.monotonic() < deadline:
            time.sleep(0.01)
        assert locks.find_holder(path) == child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_nobody_holds_a_lock_that_was_never_taken(tmp_path):
    assert locks.find_holder(tmp_path / "never.lock") is None


def test_a_released_lock_can_be_taken_by_another(tmp_path):
    path = tmp_path / "mine.lock"
    assert locks.take(path) is not None
    locks.release(path)
    done = subprocess.run(
        [sys.executable, "-c", _HOLD, path], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.stdout == b"taken\n"
