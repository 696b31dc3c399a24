"""The node agent and a container runtime, against a real control plane.

The engine is the stand-in, unless a real one is named (see ``support.container_engines``).
"""

import asyncio
import signal
import time
import urllib.error
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
from support.container_engines import NAME, agent_of, container, needs_faults, nothing_left, stand_in
from support.fake_docker import IMAGE, FakeDocker
from support.fleets import ControlPlane
from support.node_agent import Agent, is_ready, is_running, pod, status_of
from support.patience import PATIENCE_S, eventually

pytestmark = pytest.mark.kubernetes

SLEEP = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print("up", flush=True)
time.sleep(1000)
"""
SERVE = """
import http.server, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["WORDS"].encode())
    def log_message(self, *arguments): pass
http.server.HTTPServer((os.environ["OWN"], 8000), Handler).serve_forever()
"""


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


def waiting(found: Object) -> Object:
    reason: Object = status_of(found).get("state", {}).get("waiting", {})
    return reason


async def test_a_pod_runs_in_a_container_answers_and_is_removed(agent: Agent) -> None:
    health = {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1, "failureThreshold": 30}
    serving = container(
        SERVE,
        env=[
            {"name": "OWN", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "WORDS", "value": "two\nlines"},
        ],
        ports=[{"containerPort": 8000}],
        startupProbe=health,
        readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1},
        livenessProbe={"tcpSocket": {"port": 8000}, "periodSeconds": 1},
    )
    await agent.create(pod("served", serving))
    ready = await agent.pod("served", is_ready)
    assert status_of(ready)["containerID"].startswith(f"{NAME}://")
    assert status_of(ready)["image"] == IMAGE
    assert status_of(ready)["imageID"] != ""
    address = addresses.find_bound(ready["status"]["podIP"])
    assert await asyncio.to_thread(answer, f"http://{address}:8000/") == "two\nlines"
    await agent.client.delete(resources.PODS, "served", "default")
    await agent.gone("served")
    with pytest.raises(urllib.error.URLError):
        await asyncio.to_thread(answer, f"http://{address}:8000/")
    await agent.forgotten(ready)


def answer(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        words: bytes = response.read()
    return words.decode()


async def test_a_container_that_ends_is_started_again_and_its_last_log_kept(agent: Agent) -> None:
    source = "print('the last words'); raise SystemExit(3)"
    failing = container(source, terminationMessagePolicy="FallbackToLogsOnError")
    await agent.create(pod("failing", failing))
    found = await agent.pod("failing", lambda each: waiting(each).get("reason") == "CrashLoopBackOff")
    assert waiting(found)["message"] == (
        "back-off 10s restarting the container, which ended with exit code 3: the last words"
    )
    assert status_of(found)["lastState"]["terminated"]["message"] == "the last words"
    assert status_of(found)["restartCount"] == 1
    kubectl = asyncio.to_thread(agent.kubectl, "logs", "failing", "--previous")
    assert await kubectl == "the last words\n"


async def test_the_log_of_a_container_is_followed_to_its_end(agent: Agent, tmp_path: Path) -> None:
    # A line in one piece: Podman 4.3 counts the pieces with --tail, and joins lines.
    source = (
        "import pathlib, sys, time\nfor number in range(5): sys.stdout.write(f'line {number}\\n')\n"
        "while not pathlib.Path('/told/end').exists(): time.sleep(0.05)\nsys.stdout.write('last\\n')"
    )
    talking = container(source, volumeMounts=[{"name": "told", "mountPath": "/told"}])
    told = tmp_path / "told"  # the folder above has the program of the container engine
    told.mkdir()
    volume = {"name": "told", "hostPath": {"path": str(told)}}
    await agent.create(pod("talking", talking, restartPolicy="Never", volumes=[volume]))
    await agent.pod("talking", is_running)

    async def has_spoken() -> bool:
        return "line 4" in await asyncio.to_thread(agent.kubectl, "logs", "talking")

    await eventually(has_spoken)
    following = await asyncio.create_subprocess_exec(
        *(
            agent.binary,
            "kubectl",
            f"--kubeconfig={agent.home.kubeconfig}",
            "logs",
            "-f",
            "--tail=1",
            "talking",
        ),
        stdout=asyncio.subprocess.PIPE,
    )
    assert following.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        assert await following.stdout.readline() == b"line 4\n"
        (told / "end").touch()
        assert await following.stdout.read() == b"last\n"
        assert await following.wait() == 0
    assert agent.kubectl("logs", "talking", "--tail=2") == "line 4\nlast\n"
    stamped = agent.kubectl("logs", "talking", "--timestamps", "--tail=1")
    assert (stamped[:2], stamped[-6:]) == ("20", " last\n")
    assert agent.kubectl("logs", "talking", "--since-time=2999-01-01T00:00:00Z") == ""
    assert "line 0" in agent.kubectl("logs", "talking", "--since=1h")
    ended = await agent.pod("talking", lambda each: each["status"]["phase"] == "Succeeded")
    assert status_of(ended)["state"]["terminated"]["reason"] == "Completed"


async def test_an_agent_that_was_killed_takes_its_containers_over_again(agent: Agent) -> None:
    await agent.create(pod("adopted", container(SLEEP)))
    await agent.create(pod("orphaned", container(SLEEP)))
    before = await agent.pod("adopted", is_ready)
    orphan = await agent.pod("orphaned", is_ready)
    agent.end(signal.SIGKILL)
    await agent.client.delete(resources.PODS, "orphaned", "default", grace_period_s=0)
    await agent.start()
    await agent.forgotten(orphan)
    after = await agent.pod("adopted", is_ready)
    assert status_of(after) == status_of(before)
    await agent.client.delete(resources.PODS, "adopted", "default")
    await agent.gone("adopted")


async def test_a_stubborn_container_is_killed_after_its_grace(agent: Agent) -> None:
    source = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up')\ntime.sleep(1000)"
    )
    await agent.create(pod("stubborn", container(source), terminationGracePeriodSeconds=2))
    await agent.pod("stubborn", is_running)

    async def is_up() -> bool:
        return await asyncio.to_thread(agent.kubectl, "logs", "stubborn") == "up\n"

    await eventually(is_up)
    began = time.monotonic()
    await agent.client.delete(resources.PODS, "stubborn", "default")
    await agent.gone("stubborn")
    # Less than without a grace of its own.
    assert 2 <= time.monotonic() - began < 30


async def test_what_a_container_may_not_be_is_refused(agent: Agent) -> None:
    capabilities = {"capabilities": {"add": ["SYS_ADMIN"]}}
    await agent.create(pod("mighty", container(SLEEP, securityContext=capabilities)))
    found = await agent.pod("mighty", lambda each: "message" in waiting(each))
    assert waiting(found)["reason"] == "UnsupportedPod"


@needs_faults
async def test_a_pull_is_told_of_while_it_lasts_and_when_it_fails(agent: Agent, engine: FakeDocker) -> None:
    engine.publish("example.com/slow:1", seconds=4, layers=2, config={"Entrypoint": ["python3"]})
    await agent.create(pod("pulling", container(SLEEP, image="example.com/slow:1")))
    seen = await agent.pod("pulling", lambda each: waiting(each).get("message", "").endswith("2 layers"))
    assert waiting(seen)["reason"] == "Pulling"
    condition = {each["type"]: each.get("reason") for each in seen["status"]["conditions"]}
    assert condition["PodReadyToStartContainers"] == "Pulling"
    await agent.pod("pulling", is_running)
    unpulled = pod("unpulled", container(SLEEP, image="example.com/none:1"))
    # Whoever waited for its end would wait for longer than this test.
    unpulled["spec"]["terminationGracePeriodSeconds"] = 10 * PATIENCE_S
    await agent.create(unpulled)
    for reason in ("ErrImagePull", "ImagePullBackOff"):
        found = await agent.pod("unpulled", lambda each, reason=reason: waiting(each).get("reason") == reason)
        assert "manifest for example.com/none:1 not found" in waiting(found)["message"]
    pulls = engine.calls("pull")
    await agent.client.delete(resources.PODS, "unpulled", "default")
    await agent.gone("unpulled")
    assert engine.calls("pull") == pulls, "it is not waited for the next try"


@needs_faults
@pytest.mark.parametrize("moment", ["create", "start"])
async def test_an_agent_killed_in_the_middle_of_a_start_starts_its_container_once(
    agent: Agent, engine: FakeDocker, moment: str
) -> None:
    engine.fault(after=[moment])
    await agent.create(pod("interrupted", container(SLEEP)))
    await eventually(lambda: killed(agent))
    engine.fault()
    agent.end()
    await agent.start()
    await agent.pod("interrupted", is_running)
    (one,) = engine.containers().values()
    assert one["State"]["Status"] == "running"
    started = [call[1] for call in engine.calls("start")]
    assert len(started) == len(set(started)) == 1


async def killed(agent: Agent) -> bool:
    return psutil.Process(agent.pid).status() == psutil.STATUS_ZOMBIE


@needs_faults
async def test_an_engine_that_goes_away_takes_no_pod_along(agent: Agent, engine: FakeDocker) -> None:
    await agent.create(pod("kept", container(SLEEP)))
    before = await agent.pod("kept", is_ready)
    engine.fault(away=True)
    agent.end(signal.SIGKILL)
    await agent.start()
    await agent.create(pod("later", container(SLEEP)))
    found = await agent.pod("later", lambda each: "message" in waiting(each))
    assert waiting(found) == {
        "reason": "ContainerEngineUnavailable",
        "message": "the container runtime docker does not answer: start it, or choose another one with "
        "--container-engine",
    }
    kept = await agent.client.get(resources.PODS, "kept", "default")
    assert kept is not None
    assert status_of(kept) == status_of(before)
    engine.fault()
    await agent.pod("later", is_running)
    assert status_of(await agent.pod("kept", is_ready)) == status_of(before)


@needs_faults
async def test_a_pod_whose_engine_is_away_is_deleted_when_it_is_back(
    agent: Agent, engine: FakeDocker
) -> None:
    await agent.create(pod("leaving", container(SLEEP), terminationGracePeriodSeconds=1))
    await agent.pod("leaving", is_ready)
    engine.fault(away=True)
    await agent.client.delete(resources.PODS, "leaving", "default")

    async def was_to_be_killed() -> bool:
        return sum(call[1:3] == ["--signal", "KILL"] for call in engine.calls("kill")) > 0

    await eventually(was_to_be_killed)
    assert await agent.client.get(resources.PODS, "leaving", "default") is not None
    engine.fault()
    await agent.gone("leaving")
    await eventually(lambda: nothing_left(agent))
    assert engine.containers() == {}


@needs_faults
async def test_a_container_of_which_nobody_knows_is_removed(agent: Agent, engine: FakeDocker) -> None:
    await agent.create(pod("lost", container(SLEEP)))
    found = await agent.pod("lost", is_running)
    agent.end(signal.SIGKILL)
    agent.directory.get_pod(found["metadata"]["uid"]).remove()
    await agent.client.delete(resources.PODS, "lost", "default", grace_period_s=0)
    await agent.start()

    async def removed() -> bool:
        return engine.containers() == {}

    await eventually(removed)
