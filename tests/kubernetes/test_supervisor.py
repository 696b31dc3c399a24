"""Whatever is killed comes back, and what is stopped stays stopped."""

import asyncio
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from modelplane.controllers import fleet_resources
from modelplane.host.errors import LocalError
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.local import setup
from modelplane.local.home import Home
from modelplane.local.supervision import lifecycle, locks, process_records
from modelplane.local.supervision.process_records import ProcessState
from modelplane.local.supervision.processes import CONTROL_PLANE, LEADER, STANDBY
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

NAMES = (*CONTROL_PLANE, STANDBY)


def pid(home, name):
    return locks.find_holder(home.lock(name))


def pids(home, names=NAMES):
    return {name: pid(home, name) for name in names}


def until(condition, seconds=PATIENCE_S):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def running(home, name, not_pid=None):
    record = process_records.read(home.record(name))
    return (
        record is not None
        and record.state is ProcessState.RUNNING
        and pid(home, name) == record.pid != not_pid
    )


def start(home, program, names):
    lifecycle.start(home, program, names)
    asyncio.run(lifecycle.wait_until_running(home, names, PATIENCE_S, lambda _record: None))


async def until_controllers_run(home):
    """Wait for what one of Kubernetes' controllers creates.

    A controller manager that cannot reach etcd while it starts ends, as upstream's does, and the API server
    of its process with it. It runs its first controller once all are made.
    """
    async with Client.from_kubeconfig(str(home.kubeconfig), known=fleet_resources.find_known) as client:
        async with asyncio.timeout(PATIENCE_S):
            while await client.get(resources.SERVICE_ACCOUNTS, "default", "default") is None:
                await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def home(kubernetes_binary, tmp_path_factory):
    made = Home(tmp_path_factory.mktemp("supervised"))
    setup.make_home(made)
    setup.set_up(made)
    start(made, kubernetes_binary, NAMES)
    asyncio.run(until_controllers_run(made))
    yield made
    lifecycle.stop(made)


@pytest.fixture
def etcd_only(kubernetes_binary, tmp_path):
    """A home with nothing but etcd under two supervisors: quick to start and stop."""
    made = Home(tmp_path)
    setup.make_home(made)
    setup.set_up(made)
    start(made, kubernetes_binary, ("etcd", STANDBY))
    yield made
    lifecycle.stop(made)


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_process_is_running_again_within_seconds_and_the_others_never_stopped(home, name):
    before = pids(home)
    os.kill(before[name], signal.SIGKILL)
    until(lambda: running(home, name, not_pid=before[name]))
    after = pids(home)
    assert {each: after[each] for each in NAMES if each != name} == {
        each: before[each] for each in NAMES if each != name
    }
    assert process_records.read(home.record(name)).last_exit == "killed by SIGKILL"


def test_a_killed_leader_is_replaced_by_the_standby_and_nothing_else_is_touched(home):
    before, leader = pids(home), pid(home, LEADER)
    os.kill(leader, signal.SIGKILL)
    until(lambda: pid(home, LEADER) == before[STANDBY])
    until(lambda: running(home, STANDBY, not_pid=before[STANDBY]))
    assert pids(home, CONTROL_PLANE) == {name: before[name] for name in CONTROL_PLANE}
    assert process_records.read(home.record(LEADER)).restarts == 1


def test_what_an_earlier_leader_started_is_started_again_by_the_next(home):
    before = pids(home)
    os.kill(before["control-plane"], signal.SIGKILL)
    until(lambda: running(home, "control-plane", not_pid=before["control-plane"]))


async def test_no_object_is_lost_when_etcd_and_the_api_server_are_killed_at_once(home):
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kept", "namespace": "default"},
        "data": {"some": "thing"},
    }
    async with Client.from_kubeconfig(str(home.kubeconfig), known=fleet_resources.find_known) as client:
        await client.create(config_map)
    before = pids(home)
    for name in ("etcd", "control-plane"):
        os.kill(before[name], signal.SIGKILL)
    for name in ("etcd", "control-plane"):
        until(lambda name=name: running(home, name, not_pid=before[name]))
    found = None
    async with Client.from_kubeconfig(str(home.kubeconfig), known=fleet_resources.find_known) as client:
        async with asyncio.timeout(PATIENCE_S):
            while found is None:
                # One that came back before etcd may end once more.
                with suppress(errors.KubernetesError):
                    found = await client.get(resources.CONFIG_MAPS, "kept", "default")
                    assert found is not None
                await asyncio.sleep(0.05)
    assert found["data"] == {"some": "thing"}


def test_a_supervisor_is_small_and_idle(home):
    def busy_s():
        times = (os.sysconf("SC_CLK_TCK"), *(_cpu_ticks(pid(home, name)) for name in (LEADER, STANDBY)))
        return sum(times[1:]) / times[0]

    def idle():
        before = busy_s()
        time.sleep(1.0)
        return busy_s() - before <= 0.02

    until(lambda: all(running(home, name) for name in NAMES))
    until(idle)
    assert [_resident_mb(pid(home, name)) < 25 for name in (LEADER, STANDBY)] == [True, True]


def test_both_supervisors_may_die_and_the_next_start_finds_everything(etcd_only, kubernetes_binary):
    etcd = pid(etcd_only, "etcd")
    for name in (STANDBY, LEADER):
        os.kill(pid(etcd_only, name), signal.SIGKILL)
    until(lambda: not lifecycle.is_supervised(etcd_only))
    setup.set_up(etcd_only)
    start(etcd_only, kubernetes_binary, ("etcd", STANDBY))
    assert pid(etcd_only, "etcd") == etcd


def test_a_second_start_finds_the_first(etcd_only, kubernetes_binary):
    before = pids(etcd_only, (LEADER, "etcd", STANDBY))
    assert lifecycle.start(etcd_only, kubernetes_binary, ("etcd", STANDBY)) is False
    assert pids(etcd_only, (LEADER, "etcd", STANDBY)) == before


def test_a_third_supervisor_ends_at_once(etcd_only):
    argv = lifecycle.build_supervisor_argv(etcd_only, "/none", ("etcd", STANDBY))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, "two supervisors run already" in done.stderr) == (0, True)


def test_stopping_ends_everything_and_leaves_no_trace_in_the_run_directory(etcd_only):
    assert lifecycle.stop(etcd_only) == (LEADER, "etcd", STANDBY)
    assert pids(etcd_only, (LEADER, "etcd", STANDBY)) == {LEADER: None, "etcd": None, STANDBY: None}
    assert [path.name for path in etcd_only.run.iterdir() if path.suffix != ".lock"] == []
    assert lifecycle.stop(etcd_only) == ()


def test_sigterm_to_the_leader_stops_everything_too(etcd_only):
    os.kill(pid(etcd_only, LEADER), signal.SIGTERM)
    until(lambda: not any(pids(etcd_only, (LEADER, "etcd", STANDBY)).values()))


def test_stopping_goes_on_when_the_leader_is_killed_in_the_middle_of_it(etcd_only):
    etcd_only.down.touch()
    os.kill(pid(etcd_only, LEADER), signal.SIGKILL)
    until(lambda: not any(pids(etcd_only, (LEADER, "etcd", STANDBY)).values()))


def test_stopping_works_without_any_supervisor(etcd_only):
    for name in (STANDBY, LEADER):
        os.kill(pid(etcd_only, name), signal.SIGKILL)
    until(lambda: not lifecycle.is_supervised(etcd_only))
    assert lifecycle.stop(etcd_only) == ("etcd",)
    assert pid(etcd_only, "etcd") is None


def test_purging_deletes_the_home_but_not_what_someone_else_put_there(etcd_only):
    with pytest.raises(LocalError, match="processes are still running"):
        lifecycle.purge(etcd_only)
    lifecycle.stop(etcd_only)
    (etcd_only.root / "notes.txt").write_text("mine")
    settings = etcd_only.settings.read_text()
    lifecycle.purge(etcd_only)
    assert [path.name for path in etcd_only.root.iterdir()] == ["notes.txt"]
    (etcd_only.root / "notes.txt").unlink()
    setup.make_home(etcd_only)
    etcd_only.settings.write_text(settings)


def test_a_process_that_cannot_start_is_an_error_with_the_end_of_its_log(kubernetes_binary, tmp_path):
    home = Home(tmp_path)
    setup.make_home(home)
    ports = setup.set_up(home).ports
    with socket.create_server(("127.0.0.1", ports.api_server)):
        lifecycle.start(home, kubernetes_binary, ("control-plane",))
        try:
            with pytest.raises(LocalError) as raised:
                asyncio.run(
                    lifecycle.wait_until_running(home, ("control-plane",), PATIENCE_S, lambda _record: None)
                )
        finally:
            lifecycle.stop(home)
    first, *rest = str(raised.value).splitlines()
    assert first == (
        f"control-plane keeps exiting (exited with status 1); the end of {home.log('control-plane')}:"
    )
    assert "address already in use" in "".join(rest)


def test_the_status_tells_the_living_from_the_dead(etcd_only):
    states = {each.name: (each.state, each.memory_bytes > 0) for each in lifecycle.list_statuses(etcd_only)}
    assert {name: states[name] for name in (LEADER, "etcd", STANDBY, "control-plane")} == {
        LEADER: ("Running", True),
        "etcd": ("Running", True),
        STANDBY: ("Running", True),
        "control-plane": ("Stopped", False),
    }


def _cpu_ticks(process):
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _resident_mb(process):
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:")) / 1000
