from pathlib import Path

from modelplane.local.home import Home
from modelplane.local.ports import OWNERS, Ports
from modelplane.local.processes import CONTROL_PLANE, STANDBY, supervisor_argv, table

HOME = Home(Path("/home/of/fleet"))
BINARY = Path("/binary")


def processes(only=()):
    return {process.name: process for process in table(HOME, Ports(), BINARY, only)}


def test_every_process_waits_only_for_those_before_it_in_the_table():
    names = list(processes())
    assert all(
        names.index(needed) < names.index(process.name)
        for process in processes().values()
        for needed in process.after
    )


def test_the_processes_of_a_home_and_what_each_waits_for():
    assert {name: process.after for name, process in processes().items()} == {
        "etcd": (),
        "kube-apiserver": ("etcd",),
        "kube-controller-manager": ("kube-apiserver",),
        "kube-scheduler": ("kube-apiserver",),
        "controller": ("kube-apiserver",),
        "agent": ("kube-apiserver",),
        "envoy": (),
        "standby": (),
    }


def test_some_processes_can_be_asked_for_alone():
    assert tuple(processes(CONTROL_PLANE)) == CONTROL_PLANE


def test_the_standby_is_started_like_the_leader():
    only = (*CONTROL_PLANE, STANDBY)
    assert processes(only)[STANDBY].argv == supervisor_argv(HOME, BINARY, only)


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
