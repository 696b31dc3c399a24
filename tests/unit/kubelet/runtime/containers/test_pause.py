"""The program that waits: it runs without libraries, and ends by a signal only."""

import os
import platform
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from modelplane.kubelet.runtime.pod_network import PROGRAMS, build_program, install_pause


@pytest.mark.skipif(platform.machine() not in PROGRAMS, reason="no program is known for this machine")
def test_it_waits_until_a_signal_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "pause"
    install_pause(path, platform.machine())
    # Nothing of the machine is in reach of it.
    running = subprocess.Popen([path], env={}, cwd="/", stdin=subprocess.DEVNULL)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(timeout=0.3)
        stat = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()
        assert stat[0] == "S", "it sleeps"
    finally:
        os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL


@pytest.mark.parametrize("machine", sorted(PROGRAMS))
def test_a_file_has_one_segment_with_all_of_it(machine: str) -> None:
    content = build_program(PROGRAMS[machine])
    number, entry = struct.unpack_from("<HIQ", content, 18)[0::2]
    offset, address, _, in_file, in_memory = struct.unpack_from("<5Q", content, 64 + 8)
    assert (number, offset) == (PROGRAMS[machine].machine, 0)
    assert in_file == in_memory == len(content)
    assert content[entry - address :] == PROGRAMS[machine].code


def test_it_is_written_once_for_any_user(tmp_path: Path) -> None:
    path = tmp_path / "pause"
    path.write_bytes(b"of another version")
    install_pause(path, "x86_64")
    before = path.stat()
    install_pause(path, "x86_64")
    assert path.stat() == before
    assert before.st_mode & 0o777 == 0o755
    assert path.read_bytes() == build_program(PROGRAMS["x86_64"])
