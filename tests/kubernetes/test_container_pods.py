"""Pods of several containers in a container runtime, against a real control plane.

The engine is the stand-in, unless a real one is named (see ``support.container_engines``).
"""

import asyncio
import signal
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from modelplane.host import addresses
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.runtime.container_cli import ContainerRuntime, find_runtime
from support.container_engines import NAME, REAL, agent_of, container, needs_faults, needs_real, stand_in
from support.fake_docker import FakeDocker
from support.fleets import ControlPlane
from support.node_agent import Agent, is_ready, pod
from support.patience import PATIENCE_S, eventually

pytestmark = pytest.mark.kubernetes

FETCH = """
import pathlib
asked = pathlib.Path("/evidence/fetched")
asked.open("a").write("x")
if len(asked.read_text()) == 1:
    raise SystemExit("not yet")
pathlib.Path("/shared/words").write_text("hello")
print("fetched")
"""
"""It fails at first, and is run again."""

ENDING = """
import os, signal, sys, time
def ends(name):
    def end(*_):
        open("/evidence/ends", "a").write(name + chr(10))
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
"""
SERVE = f"""{ENDING}
import http.server
ends("serve")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(open("/shared/words", "rb").read())
    def log_message(self, *arguments): pass
http.server.HTTPServer((os.environ["MODELPLANE_POD_IP"], 8001), Handler).serve_forever()
"""
ASK = f"""{ENDING}
import urllib.request
ends("engine")
answer = urllib.request.urlopen(f"http://{{os.environ['MODELPLANE_POD_IP']}}:8001").read().decode()
print("the sidecar says", answer, flush=True)
time.sleep(1000)
"""
"""It ends at once unless the sidecar has started before it."""

MOUNTS = [{"name": "shared", "mountPath": "/shared"}, {"name": "evidence", "mountPath": "/evidence"}]
PROBE = {"httpGet": {"path": "/", "port": 8001}, "periodSeconds": 1}
EVERY = ["fetch", "serve", "engine"]


def threefold(name: str, evidence: Path, **spec: Any) -> Object:
    """Return a pod of an init container, a sidecar that serves what it wrote, and a main container."""
    evidence.mkdir(exist_ok=True)
    fetch = container(FETCH, name="fetch", volumeMounts=MOUNTS)
    serve = container(
        SERVE,
        name="serve",
        restartPolicy="Always",
        volumeMounts=MOUNTS,
        startupProbe=PROBE | {"failureThreshold": 60},
        readinessProbe=PROBE,
    )
    volumes = [
        {"name": "shared", "emptyDir": {"medium": "Memory"}},
        {"name": "evidence", "hostPath": {"path": str(evidence)}},
    ]
    engine = container(ASK, volumeMounts=MOUNTS)
    return pod(name, engine, initContainers=[fetch, serve], volumes=volumes, **spec)


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: a node that these tests leave behind is nobody else's."""
    return own_control_plane


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeDocker]:
    made = stand_in(tmp_path / "engine")
    yield made
    made.stop()


@pytest.fixture
async def agent(
    control_plane: Any, client: Client, engine: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Agent]:
    async with agent_of(control_plane, client, engine, monkeypatch) as started:
        yield started


@pytest.fixture
def runtime() -> ContainerRuntime:
    return find_runtime(NAME)


def statuses(found: Object) -> dict[str, Object]:
    """Return the status of each container."""
    status = found.get("status", {})
    every = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    return {each["name"]: each for each in every}


def restarted(*names: str) -> Any:
    """Return a question: is a pod ready whose containers of these names have restarted once?"""

    def holds(found: Object) -> bool:
        known = statuses(found)
        return is_ready(found) and all(known[name]["restartCount"] == 1 for name in names)

    return holds


def called(found: Object, name: str) -> str:
    """Return the name of a container, or of what holds the network of its pod."""
    return f"modelplane-{found['metadata']['uid']}-{name}-0"


async def held(runtime: ContainerRuntime, found: Object) -> bool:
    """Return True if a container holds the network of a pod."""
    return called(found, ".network") in await runtime.do("ps", "--all", "--format", "{{.Names}}")


def said(agent: Agent, *arguments: str) -> str:
    return agent.kubectl("logs", "threefold", *arguments)


async def test_an_init_container_a_sidecar_and_a_main_container(agent: Agent, tmp_path: Path) -> None:
    await agent.create(threefold("threefold", tmp_path / "evidence"))
    before = await agent.pod("threefold", is_ready)
    known = statuses(before)
    assert list(known) == EVERY
    assert known["fetch"]["state"]["terminated"]["reason"] == "Completed"
    assert (known["fetch"]["restartCount"], known["fetch"]["ready"]) == (1, True), "it failed once"
    assert known["engine"]["restartCount"] == 0, "the sidecar had started before it"
    assert len({each["containerID"] for each in known.values()}) == 3

    async def has_spoken() -> bool:
        return await asyncio.to_thread(said, agent, "-c", "engine") == "the sidecar says hello\n"

    await eventually(has_spoken)
    assert await asyncio.to_thread(said, agent, "-c", "fetch") == "fetched\n"
    assert await asyncio.to_thread(said, agent, "-c", "fetch", "--previous") == "not yet\n"

    agent.end(signal.SIGKILL)
    await find_runtime(NAME).do("kill", "--signal", "KILL", called(before, "serve"))
    await agent.start()
    after = await agent.pod("threefold", restarted("serve"))
    assert statuses(after)["fetch"] == known["fetch"], "it is not run again"
    assert statuses(after)["engine"] == known["engine"], "only the one that was killed is started again"

    await agent.client.delete(resources.PODS, "threefold", "default")
    await agent.gone("threefold")
    assert (tmp_path / "evidence" / "ends").read_text().split() == ["engine", "serve"]
    await agent.forgotten(after)
    assert not await held(find_runtime(NAME), after)


async def test_sidecars_end_after_the_last_main_container(agent: Agent, tmp_path: Path) -> None:
    wanted = threefold("finite", tmp_path / "evidence", restartPolicy="OnFailure")
    wanted["spec"]["containers"][0] = container("print('done')", volumeMounts=MOUNTS)
    await agent.create(wanted)
    ended = await agent.pod("finite", lambda found: found.get("status", {}).get("phase") == "Succeeded")
    assert statuses(ended)["serve"]["state"]["terminated"]["exitCode"] == 0
    assert (tmp_path / "evidence" / "ends").read_text().split() == ["serve"]


async def test_containers_whose_network_ends_restart_with_another_one(
    agent: Agent, tmp_path: Path, runtime: ContainerRuntime
) -> None:
    wanted = threefold("cut", tmp_path / "evidence")
    # It does not end if the sidecar, which restarts beside it, does not serve yet.
    wanted["spec"]["containers"][0] = container(
        f"{ENDING}\nends('engine')\ntime.sleep(1000)", volumeMounts=MOUNTS
    )
    await agent.create(wanted)
    before = await agent.pod("cut", is_ready)
    await runtime.do("kill", "--signal", "KILL", called(before, ".network"))
    after = await agent.pod("cut", restarted("serve", "engine"))
    for name in ("serve", "engine"):
        assert statuses(after)[name]["lastState"]["terminated"]["reason"] == "PodNetworkLost"
    address = addresses.find_bound(after["status"]["podIP"])

    def answer() -> bytes:
        with urllib.request.urlopen(f"http://{address}:8001/", timeout=PATIENCE_S) as response:
            words: bytes = response.read()
        return words

    assert await asyncio.to_thread(answer) == b"hello"
    # Podman does not remove what others depend on.
    gone = ("kill", "--signal", "KILL") if REAL else ("rm", "--force")
    agent.end(signal.SIGKILL)
    await runtime.do(*gone, called(before, ".network"))
    await agent.start()

    def twice(found: Object) -> bool:
        known = statuses(found)
        return is_ready(found) and all(known[name]["restartCount"] >= 2 for name in ("serve", "engine"))

    await agent.pod("cut", twice)
    assert await asyncio.to_thread(answer) == b"hello"


async def test_the_containers_of_a_pod_share_its_grace_period(agent: Agent, tmp_path: Path) -> None:
    stubborn = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up')\ntime.sleep(1000)"
    )
    wanted = threefold("stubborn", tmp_path / "evidence", terminationGracePeriodSeconds=3)
    wanted["spec"]["containers"][0] = container(stubborn, volumeMounts=MOUNTS)
    await agent.create(wanted)
    await agent.pod("stubborn", is_ready)

    async def is_up() -> bool:
        return await asyncio.to_thread(agent.kubectl, "logs", "stubborn", "-c", "engine") == "up\n"

    await eventually(is_up)
    began = time.monotonic()
    await agent.client.delete(resources.PODS, "stubborn", "default")
    await agent.gone("stubborn")
    # Less than without a grace of its own.
    assert 3 <= time.monotonic() - began < 30
    assert (tmp_path / "evidence" / "ends").read_text().split() == ["serve"], "it still had time to end"


@needs_real
async def test_the_containers_of_a_pod_find_each_other_at_localhost(agent: Agent, tmp_path: Path) -> None:
    wanted = threefold("local", tmp_path / "evidence")
    there = "import socket, os, time\nsocket.create_connection(('localhost', 8001))\n"
    names = "print(socket.gethostname(), flush=True)\ntime.sleep(1000)"
    wanted["spec"]["initContainers"][1]["env"] = [{"name": "MODELPLANE_POD_IP", "value": "0.0.0.0"}]
    wanted["spec"]["containers"] = [
        container(there + names, name=name, securityContext={"runAsUser": 1000}) for name in ("a", "b")
    ]
    await agent.create(wanted)
    found = await agent.pod("local", is_ready)
    assert {name: each["restartCount"] for name, each in statuses(found).items()} == {
        "fetch": 1,
        "serve": 0,
        "a": 0,
        "b": 0,
    }

    async def have_spoken() -> bool:
        logs = [await asyncio.to_thread(agent.kubectl, "logs", "local", "-c", name) for name in ("a", "b")]
        return logs == ["local\n", "local\n"]

    # They are ready as soon as they run, which is before they print.
    await eventually(have_spoken)


@needs_faults
@pytest.mark.parametrize("moment", ["create", "start"])
async def test_an_agent_killed_while_it_makes_the_network_makes_it_once(
    agent: Agent, engine: FakeDocker, tmp_path: Path, moment: str
) -> None:
    engine.fault(after=[moment])
    await agent.create(threefold("interrupted", tmp_path / "evidence"))

    async def killed() -> bool:
        return psutil.Process(agent.pid).status() == psutil.STATUS_ZOMBIE

    await eventually(killed)
    engine.fault()
    agent.end()
    await agent.start()
    found = await agent.pod("interrupted", is_ready)
    networks = [name for name in engine.containers() if ".network" in name]
    assert networks == [called(found, ".network")]
    joined = {
        each["HostConfig"]["network"][0] for name, each in engine.containers().items() if name not in networks
    }
    assert joined == {f"container:{engine.containers()[networks[0]]['Id']}"}
