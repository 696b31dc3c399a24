"""Several clusters behind one control plane, as ``modelplane up --clusters N`` starts them."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from modelplane.kubelet import local_devices
from modelplane.kubelet.local_devices import format_mebibytes
from modelplane.local.home import Home
from modelplane.local.supervision import lifecycle
from support.fleets import Fleet
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

CLUSTERS = ("local-1", "local-2")
EVERYWHERE = ("modelplane", *CLUSTERS)


@pytest.fixture(scope="module")
def two(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    started = Fleet(Home(tmp_path_factory.mktemp("clusters")), kubernetes_binary)
    started.modelplane("up", "--clusters", "2")
    try:
        yield started
    finally:
        started.modelplane("down", "--purge")


def pids(fleet: Fleet) -> dict[str, int]:
    return {each.name: each.pid for each in lifecycle.list_statuses(fleet.home)}


def test_each_cluster_is_registered_and_has_a_node_of_its_own(two: Fleet) -> None:
    assert two.kubectl("get", "ic", "-o", "jsonpath={.items[*].metadata.name}").split() == [*CLUSTERS]
    nodes = [two.kubectl("get", "nodes", "-o", "name", "--context", each).split() for each in EVERYWHERE]
    assert nodes == [[], ["node/local-1"], ["node/local-2"]]


def test_the_clusters_divide_the_machine(two: Fleet) -> None:
    slices = [
        json.loads(two.kubectl("get", "resourceslices", "-o", "json", "--context", each))["items"]
        for each in CLUSTERS
    ]
    memory = [each[0]["spec"]["devices"][0]["capacity"]["memory"]["value"] for each in slices]
    assert memory == [format_mebibytes(local_devices.measure_memory() // 2)] * 2


def test_the_administrator_of_one_cluster_is_nobody_on_another(two: Fleet, tmp_path: Path) -> None:
    config = yaml.safe_load(two.home.kubeconfig.read_text())
    users = {each["name"]: each["user"] for each in config["users"]}
    for each in config["users"]:
        each["user"] = users["local-1"]
    stolen = tmp_path / "kubeconfig"
    stolen.write_text(yaml.safe_dump(config))
    refused = {}
    for context in EVERYWHERE:
        command = [
            str(two.binary),
            "kubectl",
            f"--kubeconfig={stolen}",
            f"--context={context}",
            "get",
            "secrets",
            "-A",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        refused[context] = done.returncode != 0
    assert refused == {"modelplane": True, "local-1": False, "local-2": True}


def test_a_second_up_attaches_and_restarts_nothing(two: Fleet) -> None:
    before = pids(two)
    assert "A fleet is already running" in two.modelplane("up")
    assert "A fleet is already running" in two.modelplane("up", "--clusters", "2")
    assert pids(two) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("up", "--clusters", "3"), "is running with other settings", id="more while it runs"),
        pytest.param(("up", "--clusters", "1"), "which would be lost", id="fewer"),
        pytest.param(
            ("down", "--cluster", "local-3"),
            'has no cluster "local-3": the clusters are local-1, local-2',
            id="unknown",
        ),
        pytest.param(
            ("down", "--cluster", "local-1", "--purge"), "--purge deletes the whole fleet", id="purge"
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(two: Fleet, arguments: tuple[str, ...], said: str) -> None:
    before = pids(two)
    told = two.modelplane(*arguments, check=False)
    assert said in told
    assert "Traceback" not in told
    assert pids(two) == before


def test_one_cluster_is_stopped_while_the_others_go_on(two: Fleet) -> None:
    before = pids(two)
    assert two.modelplane("down", "--cluster", "local-2").startswith("Stopped local-2-")
    stopped = {name for name, pid in pids(two).items() if not pid}
    assert stopped == {name for name in before if name.startswith("local-2-")}
    assert "cluster local-2 is stopped: run `modelplane up` to start it" in two.modelplane(
        "status", check=False
    )
    assert two.modelplane("down", "--cluster", "local-2").startswith(
        "No processes are running for cluster local-2"
    )
    two.modelplane("up")
    after = pids(two)
    assert {name for name in before if after[name] != before[name]} == stopped
    assert "is stopped" not in two.modelplane("status")


def test_a_cluster_that_is_stopped_stays_so_under_the_next_supervisor(two: Fleet) -> None:
    two.modelplane("down", "--cluster", "local-1")
    os.kill(pids(two)["supervisor"], signal.SIGKILL)
    two.modelplane("status", check=False)
    assert {name for name, pid in pids(two).items() if not pid} >= {"local-1-control-plane", "local-1-agent"}
    two.modelplane("up")
    assert all(pids(two).values())


def test_after_a_power_failure_the_same_fleet_comes_back_and_can_grow(two: Fleet) -> None:
    uid = ("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}", "--context")
    before = [two.kubectl(*uid, each) for each in EVERYWHERE]
    running = pids(two)
    # First the standby, which leads the moment that its leader is dead.
    supervisors = ("standby", "supervisor")
    for name in (*supervisors, *(running.keys() - set(supervisors))):
        with suppress(ProcessLookupError):
            os.kill(running[name], signal.SIGKILL)
    two.modelplane("up", "--clusters", "3")
    assert [two.kubectl(*uid, each) for each in EVERYWHERE] == before
    ready = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
    assert two.kubectl("get", "ic", "-o", ready).split() == ["True"] * 3
