import asyncio
import os
import signal
import subprocess
import sys

from modelplane.kubelet.runtime import other_processes, shim
from modelplane.kubelet.runtime.other_processes import Process


def started(*command: str) -> tuple[subprocess.Popen[bytes], Process]:
    child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    return child, Process(child.pid, shim.read_identity(child.pid))


async def test_the_end_of_a_process_is_noticed() -> None:
    child, process = started("sleep", "100")
    waiting = asyncio.create_task(process.wait())
    later, ending = started("true")
    await asyncio.wait_for(ending.wait(), 5)
    assert not waiting.done(), "it is another that has ended"
    assert process.send(signal.SIGKILL)
    await asyncio.wait_for(waiting, 5)
    assert not process.alive
    for each in (child, later):
        each.communicate()


async def test_a_later_process_of_the_same_number_is_left_alone() -> None:
    child, process = started("sleep", "100")
    earlier = Process(process.pid, "another-boot/1")
    assert not earlier.send(signal.SIGKILL)
    assert other_processes.find_session(earlier) == ()
    await asyncio.wait_for(earlier.wait(), 5)
    assert process.alive
    child.kill()
    child.communicate()


def test_what_is_left_of_a_session_is_found_after_its_leader_has_ended() -> None:
    source = "import subprocess; print(subprocess.Popen(['sleep', '100'], stdout=-3).pid)"
    child, leader = started(sys.executable, "-c", source)
    printed, _ = child.communicate(timeout=10)
    orphan = Process(int(printed), shim.read_identity(int(printed)))
    assert other_processes.find_session(leader) == (orphan.pid,)
    other_processes.kill_session(leader)
    assert other_processes.wait_until_ended([orphan], 5) == ()


def test_a_session_of_an_earlier_boot_is_nobodys_business() -> None:
    source = "import subprocess; print(subprocess.Popen(['sleep', '100'], stdout=-3).pid)"
    child, leader = started(sys.executable, "-c", source)
    printed, _ = child.communicate(timeout=10)
    earlier = Process(leader.pid, f"another-boot/{leader.identity.partition('/')[2]}")
    try:
        assert other_processes.find_session(earlier) == ()
    finally:
        os.kill(int(printed), signal.SIGKILL)


def test_those_that_do_not_end_in_time_are_returned() -> None:
    child, process = started("sleep", "100")
    assert other_processes.wait_until_ended([process], 0.05) == (process,)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
