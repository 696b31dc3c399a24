"""A port that another program takes while the fleet's own process is away."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from modelplane.local import settings
from modelplane.local.supervision import locks
from support.fleets import Fleet
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes


@pytest.mark.parametrize(("process", "name"), [("envoy", "gateway"), ("agent", "agent")])
def test_a_process_whose_port_is_taken_says_so_and_starts_once_it_is_free(
    fleet: Fleet, process: str, name: str
) -> None:
    port = getattr(settings.load(fleet.home).ports, name)
    pid = locks.find_holder(fleet.home.lock(process))
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with closing(taken(port)):
        uses = f"port {port} of 127.0.0.1, which {process} uses"
        said = f"another program uses {uses}: stop that program"
        until(fleet, lambda problems, _: f"{said}; the process starts once the port is free" in problems)
        # Status tries the port itself, and may know before the process has been started again.
        log = until_logged(fleet, process, str(port))
        assert "Traceback" not in log
    until(fleet, lambda problems, states: not problems and set(states.values()) == {"Running"})


def taken(port: int) -> socket.socket:
    """Listen at a port as soon as it is free."""
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            other.bind(("127.0.0.1", port))
            other.listen()
        except OSError:
            assert time.monotonic() < deadline
        else:
            return other


def until(fleet: Fleet, wanted: Callable[[list[str], dict[str, str]], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(*(found := _status(fleet))):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def until_logged(fleet: Fleet, process: str, text: str) -> str:
    """Return the last lines of a process's log, once they tell of a text."""
    deadline = time.monotonic() + PATIENCE_S
    while text not in (log := fleet.modelplane("logs", process, "--tail", "3")):
        assert time.monotonic() < deadline, log
        time.sleep(0.2)
    return log


def _status(fleet: Fleet) -> tuple[list[str], dict[str, str]]:
    """Return the problems of a fleet, and the state of each process."""
    document = json.loads(fleet.modelplane("status", "-o", "json", check=False))
    return document["problems"], {each["name"]: each["state"] for each in document["processes"]}
