"""A node agent of its own for the tests, with the identity and certificates that a fleet gives it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.pods import pods
from modelplane.kubelet.records import AgentDirectory, Attempt
from modelplane.local import settings
from modelplane.local.home import Home
from modelplane.local.kubernetes.control_plane import NODE, Pki
from support.patience import PATIENCE_S, eventually

IMAGE = "ghcr.io/ggml-org/llama.cpp:server"
"""An image with a launcher; the pods here bring a command of their own."""


class Agent:
    """The agent's process, and what the tests ask of the control plane about its pods."""

    def __init__(self, home: Home, binary: Path, client: Client) -> None:
        self.home = home
        self.binary = binary
        self.client = client
        self.port = settings.load(home).ports.agent
        self.directory = AgentDirectory(home.agent)
        self.before: tuple[str, ...] = ()
        """What the command line of the agent begins with."""
        self.options: tuple[str, ...] = ("--container-engine=none", "--host-commands")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The pid of the agent that runs."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start the agent and wait until its node is registered."""
        self._spawn()
        await eventually(self._registered)

    def _spawn(self) -> None:
        pki = Pki(self.home.pki)
        with (self.home.logs / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self.before,
                    *(sys.executable, "-m", "modelplane.cli.main", "agent"),
                    f"--kubeconfig={self.home.agent_kubeconfig}",
                    f"--node={NODE}",
                    "--pool=local",
                    f"--dir={self.home.agent}",
                    f"--port={self.port}",
                    f"--tls-cert={pki.find_certificate('agent-serving')}",
                    f"--tls-key={pki.find_key('agent-serving')}",
                    f"--client-ca={pki.authority}",
                    *self.options,
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def _registered(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.home.logs / "agent.log").read_text()
        slices = await self.client.list(resources.RESOURCE_SLICES, fields=f"spec.nodeName={NODE}")
        return bool(slices.items)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the agent's process, and nothing else."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)
            self._process.wait(timeout=PATIENCE_S)
        self._process = None

    async def create(self, manifest: Object) -> Object:
        """Create an object in the namespace of the tests."""
        return await self.client.create(manifest)

    async def pod(self, name: str, holds: Callable[[Object], bool], timeout_s: float = PATIENCE_S) -> Object:
        """Return a pod as soon as something holds of it."""
        seen: list[Object | None] = [None]

        async def found() -> bool:
            seen[0] = await self.client.get(resources.PODS, name, "default")
            return seen[0] is not None and holds(seen[0])

        try:
            await eventually(found, timeout_s)
        except TimeoutError:
            raise AssertionError(f"pod {name}: {seen[0] and seen[0].get('status')}") from None
        assert seen[0] is not None
        return seen[0]

    async def gone(self, name: str, timeout_s: float = PATIENCE_S) -> float:
        """Wait until a pod is gone; return how many seconds that took."""
        began = time.monotonic()

        async def absent() -> bool:
            return await self.client.get(resources.PODS, name, "default") is None

        await eventually(absent, timeout_s)
        return time.monotonic() - began

    async def forgotten(self, pod: Object, timeout_s: float = PATIENCE_S) -> None:
        """Wait until nothing is kept of a pod any more, which is soon after its object is gone."""
        directory = self.directory.get_pod(pod["metadata"]["uid"]).path

        async def absent() -> bool:
            return not directory.exists()

        await eventually(absent, timeout_s)

    def attempt(self, pod: Object) -> Attempt:
        """Return the last attempt to run a pod's container."""
        name = pod["spec"]["containers"][0]["name"]
        found = self.directory.get_pod(pod["metadata"]["uid"]).get_container(name).find_latest()
        assert found is not None
        return found

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as the administrator."""
        done = subprocess.run(
            [str(self.binary), "kubectl", f"--kubeconfig={self.home.kubeconfig}", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.stdout + done.stderr


@asynccontextmanager
async def running(home: Home, binary: Path, client: Client, *options: str) -> AsyncIterator[Agent]:
    """Run an agent with further options; in the end, delete the pods and stop what they ran."""
    agent = Agent(home, binary, client)
    agent.options += options
    await agent.start()
    try:
        yield agent
    finally:
        for item in (await client.list(resources.PODS, "default")).items:
            await client.delete(resources.PODS, item["metadata"]["name"], "default", grace_period_s=0)
        agent.end()
        pods.stop_all(home.agent, 2)


def python(source: str, **fields: Any) -> Object:
    """Return a container that runs a Python program; the fields go over its own."""
    return {"name": "engine", "image": IMAGE, "command": [sys.executable, "-u", "-c", source]} | fields


def pod(name: str, container: Object, **spec: Any) -> Object:
    """Return a pod bound to the node of this machine."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"test": name}},
        "spec": {
            "nodeName": NODE,
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "containers": [container],
        }
        | spec,
    }


def status_of(pod: Object) -> Object:
    """Return the status of a pod's one container; empty where there is none yet."""
    found: list[Object] = pod.get("status", {}).get("containerStatuses") or [{}]
    return found[0]


def is_running(pod: Object) -> bool:
    """Whether the container of a pod runs."""
    return "running" in status_of(pod).get("state", {})


def is_ready(pod: Object) -> bool:
    """Whether a pod is ready."""
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod.get("status", {}).get("conditions", ())
    )
