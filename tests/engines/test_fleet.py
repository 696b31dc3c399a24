"""vLLM on a fleet of this machine: weights of a ModelCache, an edit under load, and what its failures say."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.local.home import Home
from support import hub
from support.fleets import Fleet
from support.load import Load

pytestmark = pytest.mark.engines

TEAM = "engines"
CLUSTERS = ("local-1", "local-2")
IMAGE = "vllm/vllm-openai:v0.23.0"
_START_S = 600.0


@pytest.fixture(scope="module")
def fleet(
    kubernetes_binary: Path, vllm: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """A fleet that finds vLLM on its path, with the model staged from a hub."""
    started = Fleet(Home(tmp_path_factory.mktemp("engines")), kubernetes_binary)
    with hub.serve() as served, pytest.MonkeyPatch.context() as environment:
        served.add("team/tiny", {each.name: each for each in tiny_model.iterdir()})
        environment.setenv("HF_ENDPOINT", served.url)
        environment.setenv("MODELPLANE_CACHE_ALLOW_LOCAL", "1")
        environment.setenv("PATH", f"{os.environ['PATH']}:{vllm}")
        try:
            started.modelplane("up", "--clusters", str(len(CLUSTERS)))
            started.kubectl("create", "namespace", TEAM)
            yield started
        finally:
            started.modelplane("down")


def _apply(fleet: Fleet, kind: str, name: str, spec: dict[str, Any]) -> None:
    manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": TEAM},
        "spec": spec,
    }
    path = fleet.home.root / "applied.json"
    path.write_text(json.dumps(manifest))
    fleet.kubectl("apply", "-f", str(path))


def _deploy(fleet: Fleet, name: str, *arguments: str, replicas: int = 1) -> None:
    container = {
        "name": "engine",
        "image": IMAGE,
        "args": [f"--served-model-name={name}", *arguments],
        "env": [{"name": "VLLM_CPU_KVCACHE_SPACE", "value": "1"}, {"name": "HF_HUB_OFFLINE", "value": "1"}],
    }
    large_enough = 'device.capacity[device.driver].memory.compareTo(quantity("1Gi")) >= 0'
    member = {
        "role": "Standalone",
        "nodeSelector": {"devices": [{"name": "compute", "count": 1, "selectors": [{"cel": large_enough}]}]},
        "template": {"spec": {"containers": [container]}},
    }
    spec = {
        "replicas": replicas,
        "modelCacheRef": {"name": "tiny"},
        "engines": [{"name": "vllm", "members": [member]}],
    }
    _apply(fleet, "ModelDeployment", name, spec)


def _until(fleet: Fleet, kind: str, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return an object's status as soon as something holds of it."""
    deadline = time.monotonic() + _START_S
    while True:
        found = json.loads(fleet.kubectl("get", kind, name, "-n", TEAM, "-o", "json"))
        status: dict[str, Any] = found.get("status", {})
        if holds(status):
            return status
        assert time.monotonic() < deadline, status
        time.sleep(0.5)


def _is_ready(status: dict[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))


def _engines(fleet: Fleet) -> dict[str, list[str]]:
    """Return the arguments of the engines that run, by the name of their pod."""
    listed = (
        json.loads(fleet.kubectl("--context", each, "get", "pods", "-n", TEAM, "-o", "json"))["items"]
        for each in CLUSTERS
    )
    engines = (pod for pods in listed for pod in pods if "modelplane.ai/serving" in pod["metadata"]["labels"])
    return {each["metadata"]["name"]: each["spec"]["containers"][0]["args"] for each in engines}


@pytest.fixture(scope="module")
def served(fleet: Fleet) -> str:
    """The address of a service with one replica, whose weights are a cache's."""
    source = {"repo": "team/tiny", "sizeGiB": 1}
    _apply(fleet, "ModelCache", "tiny", {"source": "HuggingFace", "huggingFace": source})
    _deploy(fleet, "tiny", "--max-model-len=4096", replicas=len(CLUSTERS))
    selector = {"matchLabels": {"modelplane.ai/deployment": "tiny"}}
    _apply(fleet, "ModelService", "tiny", {"endpoints": [{"selector": selector}]})
    _until(fleet, "md", "tiny", _is_ready)
    return str(_until(fleet, "ms", "tiny", _is_ready)["address"])


def test_an_edit_under_load_fails_no_request(fleet: Fleet, served: str) -> None:
    # Pauses leave the processor to the engines that start.
    load = Load(served, expected="", model="tiny", tokens=1500, pause_s=10)
    with load.flowing():
        load.until_answered(4)
        before = _engines(fleet)
        _deploy(fleet, "tiny", "--max-model-len=3072", replicas=len(CLUSTERS))
        deadline = time.monotonic() + 2 * _START_S
        while before.keys() & _engines(fleet).keys():
            assert time.monotonic() < deadline, (load.failures, _engines(fleet))
            time.sleep(1)
        _until(fleet, "md", "tiny", _is_ready)
        load.until_answered(4)
    assert load.failures == []
    added = {"--max-model-len=3072", "--model=/mnt/models", "--shutdown-timeout=100"}
    assert [added - set(arguments) for arguments in _engines(fleet).values()] == [set(), set()]


@pytest.mark.parametrize(
    ("name", "argument", "said"),
    [
        pytest.param("wrong", "--tensor-parallel-size=three", "invalid int value", id="a wrong value"),
        pytest.param(
            "large", "--max-model-len=9000", "max_position_embeddings=4096", id="a context too long"
        ),
    ],
)
@pytest.mark.usefixtures("served")
def test_what_the_engine_refuses_is_told_in_a_condition(
    fleet: Fleet, name: str, argument: str, said: str
) -> None:
    # Each cluster has one node, which one replica takes.
    fleet.kubectl("delete", "md", "--all", "-n", TEAM, "--timeout=180s")
    _deploy(fleet, name, argument)

    def tells(status: dict[str, Any]) -> bool:
        return any(said in each.get("message", "") for each in status.get("conditions", ()))

    _until(fleet, "md", name, tells)
