from dataclasses import replace
from pathlib import Path

import pytest

from modelplane.local.home import Home
from modelplane.local.ports import OWNERS, Ports
from modelplane.local.settings import LocalSettings
from modelplane.local.supervision.processes import (
    CONTROL_PLANE,
    STANDBY,
    build_supervisor_argv,
    build_table,
    list_api_servers,
)

HOME = Home(Path("/home/of/fleet"))
BINARY = Path("/binary")


ALONE = LocalSettings(Ports())
SEVERAL = LocalSettings(Ports(), {"local-1": Ports(), "local-2": Ports(workload_gateway=8802)})


def processes(only=(), settings=ALONE):
    return {process.name: process for process in build_table(HOME, settings, BINARY, only)}


@pytest.mark.parametrize("settings", [pytest.param(ALONE, id="alone"), pytest.param(SEVERAL, id="several")])
def test_every_process_waits_only_for_those_before_it_in_the_table(settings):
    names = list(processes(settings=settings))
    assert all(
        names.index(needed) < names.index(process.name)
        for process in processes(settings=settings).values()
        for needed in process.after
    )


@pytest.mark.parametrize(("given", "used"), [(None, "30"), ("200", "200")])
def test_a_control_plane_collects_garbage_early_unless_the_user_says_when(monkeypatch, given, used):
    monkeypatch.delenv("GOGC", raising=False)
    if given:
        monkeypatch.setenv("GOGC", given)
    assert {name: processes()[name].environment for name in CONTROL_PLANE} == {
        name: {"GOGC": used} for name in CONTROL_PLANE
    }


def test_the_processes_of_a_home_and_what_each_waits_for():
    assert {name: process.after for name, process in processes().items()} == {
        "etcd": (),
        "control-plane": ("etcd",),
        "controller": ("control-plane",),
        "agent": ("control-plane",),
        "envoy": (),
        "standby": (),
    }


def test_each_of_several_clusters_has_processes_that_end_with_it():
    by_cluster: dict[str, set[str]] = {}
    for process in processes(settings=SEVERAL).values():
        by_cluster.setdefault(process.cluster, set()).add(process.name)
    assert by_cluster == {
        "": {"etcd", "control-plane", "controller", "envoy", "standby"},
        "local-1": {"local-1-control-plane", "local-1-agent"},
        "local-2": {"local-2-control-plane", "local-2-agent"},
    }


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        pytest.param(ALONE, ["--cluster=local:8801"], id="the control plane is its own cluster"),
        pytest.param(SEVERAL, ["--cluster=local-1:8801", "--cluster=local-2:8802"], id="there are several"),
        pytest.param(replace(ALONE, register=False), [], id="none is registered"),
    ],
)
def test_envoy_listens_for_every_cluster_from_its_first_start(settings, options):
    argv = processes(settings=settings)["envoy"].argv
    assert [option for option in argv if option.startswith("--cluster=")] == options


def test_clusters_share_etcd_and_nothing_in_it():
    servers = [each.argv for name, each in processes(settings=SEVERAL).items() if "control-plane" in name]
    assert [[each for each in argv if "prefix" in each] for argv in servers] == [
        [],
        ["--etcd-prefix=/clusters/local-1"],
        ["--etcd-prefix=/clusters/local-2"],
    ]
    authorities = {argument for argv in servers for argument in argv if "client-ca-file" in argument}
    assert len(authorities) == 3, "who may do anything on one may do nothing on another"


def test_only_a_control_plane_with_a_node_has_a_scheduler():
    assert "kube-scheduler" in processes()["control-plane"].argv
    named = {name for name, each in processes(settings=SEVERAL).items() if "kube-scheduler" in each.argv}
    assert named == {"local-1-control-plane", "local-2-control-plane"}


def test_the_api_servers_come_first():
    assert list_api_servers(processes(settings=SEVERAL).values()) == (
        "etcd",
        "control-plane",
        "local-1-control-plane",
        "local-2-control-plane",
    )


def test_some_processes_can_be_asked_for_alone():
    assert tuple(processes(CONTROL_PLANE)) == CONTROL_PLANE


def test_the_standby_is_started_like_the_leader():
    only = (*CONTROL_PLANE, STANDBY)
    assert processes(only)[STANDBY].argv == build_supervisor_argv(HOME, BINARY, only)


def test_every_port_belongs_to_a_process():
    assert set(OWNERS.values()) <= set(processes())


def test_no_process_listens_beyond_the_loopback_interface():
    arguments = [argument for process in processes().values() for argument in process.argv]
    bound = [argument for argument in arguments if "bind-address" in argument or "listen-" in argument]
    assert sorted(set(bound)) == [
        "--bind-address=127.0.0.1",
        "--listen-client-urls=unix://localhost:1",
        "--listen-peer-urls=unix://localhost:2",
    ]
