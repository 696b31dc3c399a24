"""The hooks of a gang's pods, run by real shells and Pythons: a worker stops soon after its leader.

The tables of connections are those of Linux, written by hand, except for one test that has real ones.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modelplane.api.fields.pods.containers import Container
from modelplane.compose.composition import Desired
from modelplane.compose.replica.backends import draining
from support.replicas import composed, engine, gang, member, replica

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LINE = "   0: {local}:9C40 {remote}:18EB {state} 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
LEADER, OTHER = "0500F40A", "0600F40A"
"""10.244.0.5 and 10.244.0.6."""
MAPPED = "0000000000000000FFFF0000"
ESTABLISHED, CLOSE_WAIT = "01", "08"

SHELLS = [pytest.param(shell, id=shell) for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
PROGRAMS = [*SHELLS, pytest.param(sys.executable, id="python")]


class Worker:
    """A worker whose hook is run."""

    def __init__(self, folder: Path, program: str) -> None:
        self._program = program
        self._bin, self._net = folder / "bin", folder / "net"
        self._bin.mkdir()
        self._net.mkdir()
        self.names("exit 2")

    def names(self, script: str, path: str = "getent") -> None:
        """Let the name of the leader have an address, by a script in the place of ``getent``."""
        file = self._bin / path
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def connects(self, *lines: tuple[str, str, str], table: str = "tcp") -> None:
        rows = (LINE.format(local=local, remote=remote, state=state) for local, remote, state in lines)
        self.tables({table: "".join(rows)})

    def tables(self, rows: dict[str, str]) -> None:
        for table, text in rows.items():
            (self._net / table).write_text(HEADER + text)

    @property
    def _container(self) -> Container:
        return Container(name="engine", image="team/server:v3", command=(self._program,))

    def waits(self, address: str, wait_s: int, net: str = "", *, serves: int = 0) -> bool:
        """Run the hook, which waits for some seconds at most, and return True if it waits so long.

        The hook is a worker's, or that of a leader that serves on a port.
        """
        hook = (
            draining.leader_hook(self._container, serves, 60)
            if serves
            else draining.worker_hook(self._container)
        )
        # The seconds first: the folder of a test may have the same number in its name.
        text = hook[-1].replace(str(draining.WAIT_S), str(wait_s))
        text = text.replace("/proc/net", net or str(self._net))
        shell = [self._program, "sh"] if self._program == "busybox" else [self._program]
        path = f"{self._bin}:{os.environ['PATH']}"
        began = time.monotonic()
        done = subprocess.run(
            [*shell, "-c", text],
            env={"PATH": path, "LWS_LEADER_ADDRESS": address},
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode in (0, 1), done.stderr) == (True, b"")
        return time.monotonic() - began >= wait_s


@pytest.fixture(params=PROGRAMS)
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Worker:
    return Worker(tmp_path, request.param)


@pytest.mark.parametrize(
    ("address", "table", "lines", "waits"),
    [
        pytest.param("10.244.0.5", "tcp", [(OTHER, LEADER, ESTABLISHED)], True, id="its leader is there"),
        pytest.param(
            "10.244.0.5",
            "tcp6",
            [(OTHER, MAPPED + LEADER, ESTABLISHED)],
            True,
            id="by a socket of both families",
        ),
        pytest.param(
            "fd00::5:1",
            "tcp6",
            [("0" * 32, "000000FD000000000000000001000500", ESTABLISHED)],
            True,
            id="by IPv6",
        ),
        pytest.param(
            "2001:db8:1:2:3:4:5:abcd",
            "tcp6",
            [("0" * 32, "B80D01200200010004000300CDAB0500", ESTABLISHED)],
            True,
            id="by IPv6, no group of zeros",
        ),
        pytest.param(
            "2001:db8::",
            "tcp6",
            [("0" * 32, "B80D0120" + "0" * 24, ESTABLISHED)],
            True,
            id="by IPv6 that ends in zeros",
        ),
        pytest.param("10.244.0.5", "tcp", [(OTHER, LEADER, CLOSE_WAIT)], False, id="its leader has closed"),
        pytest.param("10.244.0.5", "tcp", [(LEADER, OTHER, ESTABLISHED)], False, id="another worker's only"),
        pytest.param("10.244.0.5", "tcp", [], False, id="the name is of the leader's successor"),
        pytest.param("fd00::5:1", "tcp6", [("0" * 32, "0" * 32, ESTABLISHED)], False, id="another by IPv6"),
    ],
)
def test_a_worker_waits_while_it_is_connected_with_its_leader(
    worker: Worker, address: str, table: str, lines: list[tuple[str, str, str]], waits: bool
) -> None:
    worker.names(f"echo '{address}  qwen-0.qwen.ml-team.svc.cluster.local'")
    worker.connects(*lines, table=table)
    assert worker.waits(address, 1 if waits else 30) is waits


def test_a_worker_whose_leader_has_no_address_any_more_stops_at_once(worker: Worker) -> None:
    worker.connects((OTHER, LEADER, ESTABLISHED))
    assert not worker.waits("qwen-0.qwen.invalid", 30)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_that_cannot_look_up_names_waits_for_the_whole_time(tmp_path: Path, shell: str) -> None:
    worker = Worker(tmp_path, shell)
    worker.names("exit 127")
    worker.connects()
    assert worker.waits("10.244.0.5", 1)


def test_a_worker_stops_within_seconds_of_its_leader(worker: Worker) -> None:
    """Real connections, of an address that no other program of the machine has."""
    address = "127.83.19.7"
    worker.names(f"echo '{address}  qwen-0'")
    with (
        socket.create_server((address, 0)) as server,
        socket.create_connection(server.getsockname()),
        server.accept()[0],
    ):
        assert worker.waits(address, 1, "/proc/net")
    assert not worker.waits(address, 30, "/proc/net")


@pytest.mark.parametrize(
    ("command", "program"),
    [
        pytest.param((), "sh", id="that of the image"),
        pytest.param(("vllm", "serve", "m"), "sh", id="a program"),
        pytest.param(("/bin/bash", "-c", "ray start"), "/bin/bash", id="a shell"),
        pytest.param(("python3", "-m", "sglang.launch_server"), "python3", id="Python"),
        pytest.param(
            ("/opt/venv/bin/python3.12", "-m", "server"), "/opt/venv/bin/python3.12", id="another Python"
        ),
        pytest.param(("pythonic",), "sh", id="a name like it"),
    ],
)
def test_the_hook_is_run_by_what_the_image_has(command: tuple[str, ...], program: str) -> None:
    hook = draining.worker_hook(Container(name="engine", image="team/server:v3", command=command))
    text = draining.WORKER_PYTHON if "python" in program else draining.WORKER_SHELL
    assert hook == [program, "-c", text]


LISTENS, NOBODY = "0A", "00000000:0000"


@pytest.mark.parametrize(
    ("local", "state", "table", "waits"),
    [
        pytest.param("00000000:1F40", LISTENS, "tcp", True, id="its engine serves"),
        pytest.param("0" * 32 + ":1F40", LISTENS, "tcp6", True, id="its engine serves by IPv6"),
        pytest.param("00000000:1F41", LISTENS, "tcp", False, id="another port is served"),
        pytest.param(
            "0500F40A:1F40", ESTABLISHED, "tcp", False, id="a connection of an engine that has ended"
        ),
    ],
)
def test_a_leader_keeps_serving_unless_its_engine_does_not_listen(
    worker: Worker, local: str, state: str, table: str, waits: bool
) -> None:
    remote = NOBODY if state == LISTENS else f"{OTHER}:1F40"
    row = f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
    worker.tables({table: row})
    assert worker.waits("", 1 if waits else 30, serves=8000) is waits


def test_a_leader_that_keeps_serving_stops_at_once_after_a_failure() -> None:
    script = member("Leader", command=["/bin/bash", "-c", "ray start --head; vllm serve m"])
    [template] = [
        each.manifest["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]
        for each in composed(replica(engine("qwen", script, member("Worker")))).children
        if isinstance(each, Desired) and each.key == "model-gang-qwen"
    ]
    command = template["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert command[:2] == ["/bin/bash", "-c"]
    assert ":1F40 " in command[2], "port 8000"
    assert "left=60" in command[2]


@pytest.mark.parametrize("backend", ["model-gang-qwen", "KServe"])
def test_workers_of_a_gang_have_the_hook_and_leaders_a_pause(backend: str) -> None:
    owner = replica(gang(), **({"backend": "KServe"} if backend == "KServe" else {}))
    manifests = {each.key: each.manifest for each in composed(owner).children if isinstance(each, Desired)}
    if backend == "KServe":
        spec = next(each for each in manifests.values() if each["kind"] == "LLMInferenceService")["spec"]
        leader, worker = spec["template"], spec["worker"]
    else:
        template = manifests[backend]["spec"]["leaderWorkerTemplate"]
        leader, worker = template["leaderTemplate"]["spec"], template["workerTemplate"]["spec"]
    hook = worker["containers"][0]["lifecycle"]["preStop"]
    assert hook == {"exec": {"command": ["sh", "-c", draining.WORKER_SHELL]}}
    assert leader["containers"][0]["lifecycle"]["preStop"] != hook
    assert "{{" not in draining.WORKER_SHELL + draining.WORKER_PYTHON, "KServe expands templates"
