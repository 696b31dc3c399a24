"""The commands about the fleet on this machine, against a whole one."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from modelplane.local import setup
from modelplane.local.home import Home
from modelplane.local.supervision import lifecycle, locks, processes
from support.fleets import PROCESSES
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes


def status(fleet):
    return json.loads(fleet.modelplane("status", "-o", "json", check=False))


def until_healed(fleet, name, pid):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = next(each for each in lifecycle.list_statuses(fleet.home) if each.name == name)
        if found.state == "Running" and found.pid != pid:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_status_shows_every_process_running_and_the_fleet_ready(fleet):
    # Another module may have killed some of it, which is back before the fleet is ready again.
    deadline = time.monotonic() + PATIENCE_S
    ready = {"total": 1, "ready": 1}
    wanted = (dict.fromkeys(PROCESSES, "Running"), ready, ready)
    while (found := shown(fleet)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def shown(fleet):
    """Return the state of each process, and how many clusters and gateways are ready."""
    found = status(fleet)
    states = {each["name"]: each["state"] for each in found["processes"]}
    fleet_ = found.get("fleet") or {}
    return states, fleet_.get("InferenceCluster"), fleet_.get("InferenceGateway")


def test_a_second_up_finds_the_first_and_restarts_nothing(fleet):
    before = status(fleet)["processes"]
    said = fleet.modelplane("up")
    assert said.startswith(f"A fleet is already running in {fleet.home.root}\n")
    after = status(fleet)["processes"]
    assert [each["pid"] for each in after] == [each["pid"] for each in before]


@pytest.mark.parametrize("name", ["controller", "agent", "envoy"])
def test_a_killed_process_of_modelplane_is_running_again_within_seconds(fleet, name):
    pid = locks.find_holder(fleet.home.lock(name))
    os.kill(pid, signal.SIGKILL)
    assert until_healed(fleet, name, pid).last_exit == "killed by SIGKILL"


def test_kubeconfig_prints_the_path_alone(fleet):
    assert fleet.modelplane("kubeconfig") == f"{fleet.home.root}/kubeconfig\n"


def test_up_in_the_foreground_stays_until_it_is_interrupted_and_then_stops_everything(
    kubernetes_binary, tmp_path
):
    home = Home(tmp_path / "home")
    setup.make_home(home)
    with subprocess.Popen(
        [sys.executable, "-m", "modelplane.cli.main", "up", "--foreground", "--home", home.root],
        env=os.environ | {"MODELPLANE_KUBERNETES_BINARY": str(kubernetes_binary)},
        stdout=subprocess.PIPE,
        text=True,
    ) as up:
        try:
            said = list(
                itertools.takewhile(lambda line: line != "Press Ctrl-C to stop the fleet\n", up.stdout)
            )
            up.send_signal(signal.SIGTERM)
            assert up.wait(PATIENCE_S) == 0
        finally:
            if home.settings.exists():
                left = lifecycle.stop(home)
    assert said[0] == f"Starting a fleet in {home.root}\n"
    assert left == ()
    names = [process.name for process in processes.build_table(home, setup.set_up(home), home.root)]
    assert [name for name in names if locks.find_holder(home.lock(name))] == []
