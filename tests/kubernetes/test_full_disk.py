"""A fleet whose disk fills up: what serves goes on, every command says what is wrong, nothing is lost.

The disk is a file system of its own, in a mount namespace of its own, so that nobody else meets it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can mount a file system"
    ),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-first-answer"
LARGE_M = 2048


@dataclass(frozen=True, slots=True)
class Disk:
    """A small disk, and a fleet on it."""

    pid: int
    """Of a process that has the disk mounted."""
    path: Path
    binary: Path

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command that sees the disk."""
        environment = os.environ | {
            "MODELPLANE_HOME": str(self.path / "home"),
            "MODELPLANE_KUBERNETES_BINARY": str(self.binary),
        }
        return subprocess.run(
            ["nsenter", "--mount", f"--target={self.pid}", *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def modelplane(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.run(sys.executable, "-m", "modelplane.cli.main", *arguments)

    def kubectl(self, *arguments: str) -> str:
        done = self.modelplane("kubectl", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def resize(self, size_k: int) -> None:
        done = self.run("mount", "-o", f"remount,size={size_k}k", str(self.path))
        assert done.returncode == 0, done.stderr

    def fill(self) -> None:
        """Take all the room that is left."""
        used = int(self.run("df", "-k", "--output=used", str(self.path)).stdout.split()[-1])
        # What is written meanwhile must fit too, or the disk cannot be made so small.
        self.resize(used + 1024)
        ballast = f"of={self.path / 'ballast'}"
        deadline = time.monotonic() + PATIENCE_S
        left = ""
        while left != "0":  # whoever ends meanwhile gives room back
            assert time.monotonic() < deadline, left
            self.run("dd", "if=/dev/zero", ballast, "bs=4k", "oflag=append", "conv=notrunc")
            left = self.run("df", "-k", "--output=avail", str(self.path)).stdout.split()[-1]

    def make_room(self) -> None:
        self.run("rm", "-f", str(self.path / "ballast"))
        self.resize(LARGE_M * 1024)

    def processes(self) -> dict[str, dict[str, object]]:
        document = json.loads(self.modelplane("status", "-o", "json").stdout)
        return {each["name"]: each for each in document["processes"]}


@pytest.fixture(scope="module")
def disk(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    """A disk of 512 MiB, with nothing on it."""
    path = tmp_path_factory.mktemp("disk")
    mount = f"mount -t tmpfs -o size=512M,mode=700 none '{path}' && echo mounted && exec sleep infinity"
    with subprocess.Popen(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", mount], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mounted\n"
        small = Disk(holder.pid, path, kubernetes_binary)
        try:
            yield small
        finally:
            small.make_room()
            small.modelplane("down")
            holder.kill()


@pytest.fixture(scope="module")
def fleet(disk: Disk) -> Disk:
    """A fleet that serves the first example."""
    disk.make_room()
    started = disk.modelplane("up")
    assert started.returncode == 0, started.stdout + started.stderr
    disk.kubectl("apply", "-f", str(EXAMPLE))
    disk.kubectl("wait", "--for=condition=Ready", "ms/first-answer", "-n", "ml-team", "--timeout=180s")
    return disk


def answers(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/v1/models", timeout=PATIENCE_S) as response:
        return bool(response.status == 200)


def until_answering(address: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            assert answers(address)
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return


def test_up_refuses_a_disk_without_room_for_a_fleet(disk: Disk) -> None:
    refused = disk.modelplane("up")
    lacking = f"only 512 MiB are free at {disk.path}/home, and a fleet requires 1024 MiB: free some space"
    said = f"Error: {lacking}, or choose another directory with --home\n"
    assert (refused.returncode, refused.stderr) == (1, said)


def test_a_disk_that_fills_costs_changes_and_no_answer_and_all_comes_back_with_room(fleet: Disk) -> None:
    address = fleet.kubectl("get", "ms", "first-answer", "-n", "ml-team", "-o", "jsonpath={.status.address}")
    fleet.fill()
    stored = until_nothing_is_stored(fleet)
    assert answers(address), "what serves goes on"
    pid = fleet.processes()["envoy"]["pid"]
    assert isinstance(pid, int)
    fleet.run("kill", "-9", str(pid))
    until_answering(address)
    # A process that ended may have left room.
    fleet.fill()

    said = fleet.modelplane("status")
    # etcd, which is started again and again, gives back at each end what it had reserved.
    lacking = f"only \\d+ MiB are free at {fleet.path}/home, and its fleet requires 128 MiB: free some space"
    assert said.returncode == 1
    assert re.search(
        rf"^{lacking}; running processes continue, and stopped processes restart once there is space$",
        said.stdout,
        re.MULTILINE,
    )
    until_etcd_ends(fleet)
    up = fleet.modelplane("up")
    assert up.returncode == 1
    assert re.fullmatch(f"Error: {lacking}, or choose another directory with --home\\n", up.stderr)
    assert "Traceback" not in fleet.run("sh", "-c", f"cat {fleet.path}/home/logs/*.log").stdout

    fleet.make_room()
    deadline = time.monotonic() + PATIENCE_S
    while (again := fleet.modelplane("status")).returncode != 0:
        assert time.monotonic() < deadline, again.stdout
        time.sleep(1)
    names = fleet.kubectl("get", "configmaps", "-o", "name").split()
    assert set(stored) <= set(names), "nothing that was accepted is lost"
    assert answers(address)


def until_nothing_is_stored(fleet: Disk) -> list[str]:
    """Store until that is no longer possible; return what was stored."""
    stored: list[str] = []
    for number in range(200):
        name = f"stored-{number}"
        made = fleet.modelplane(
            "kubectl",
            "create",
            "configmap",
            name,
            f"--from-literal=x={'a' * 100_000}",
            "--request-timeout=5s",
        )
        if made.returncode != 0:
            return stored
        stored.append(f"configmap/{name}")
    raise AssertionError("a full disk stores whatever it is given")


def until_etcd_ends(fleet: Disk) -> None:
    """Take all room and store until etcd has none: it runs on in what it reserved, or got back at its end."""
    deadline = time.monotonic() + PATIENCE_S
    number = 0
    while (state := fleet.processes()["etcd"]["state"]) not in {"BackOff", "Starting"}:
        assert time.monotonic() < deadline, (state, fleet.modelplane("logs", "etcd").stdout)
        fleet.fill()
        number += 1
        content = f"--from-literal=x={'a' * 100_000}"
        # It may be stored or not.
        fleet.modelplane("kubectl", "create", "configmap", f"more-{number}", content, "--request-timeout=5s")


def test_a_full_disk_does_not_keep_a_fleet_from_being_stopped(fleet: Disk) -> None:
    fleet.fill()
    stopped = fleet.modelplane("down")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert {each["state"] for each in fleet.processes().values()} == {"Stopped"}
    assert fleet.modelplane("up").returncode == 1
    fleet.make_room()
    started = fleet.modelplane("up")
    assert started.returncode == 0, started.stdout + started.stderr
