"""A node agent whose pods run in a container runtime: the stand-in, or a real one.

``MODELPLANE_TEST_CONTAINER_ENGINE`` names a real one, which has the image ``example.com/py:1`` whose entry
point is ``python3``. What needs faults then is left out.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.pods import pods
from support.fake_docker import IMAGE, FakeDocker
from support.node_agent import Agent
from support.patience import eventually

REAL = os.environ.get("MODELPLANE_TEST_CONTAINER_ENGINE", "")
NAME = REAL or "docker"
needs_faults = pytest.mark.skipif(bool(REAL), reason="a real engine cannot be told to fail")
needs_real = pytest.mark.skipif(
    not REAL, reason="no container runtime is named by MODELPLANE_TEST_CONTAINER_ENGINE"
)


def stand_in(folder: Path) -> FakeDocker:
    """Return a stand-in that has an image of Python."""
    made = FakeDocker(folder)
    made.has(IMAGE, Entrypoint=["python3"])
    return made


@asynccontextmanager
async def agent_of(
    control_plane: Any, client: Client, engine: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Agent]:
    """Run an agent; in the end, delete the pods and wait until nothing of them is left."""
    if not REAL:
        monkeypatch.setenv("PATH", f"{engine.path}:{os.environ['PATH']}")
    started = Agent(control_plane.home, control_plane.binary, client)
    started.options = (f"--container-engine={NAME}",)
    await started.start()
    try:
        yield started
    finally:
        engine.fault()
        for item in (await client.list(resources.PODS, "default")).items:
            await client.delete(resources.PODS, item["metadata"]["name"], "default", grace_period_s=0)
        try:
            await eventually(lambda: nothing_left(started))
        finally:
            started.end()
            await asyncio.to_thread(pods.stop_all, control_plane.home.agent, 2)


async def nothing_left(agent: Agent) -> bool:
    """Return True if the agent keeps nothing of any pod."""
    return not agent.directory.list_pods()


def container(source: str, **fields: Any) -> Object:
    """Return a container that runs a Python program of its image."""
    return {"name": "engine", "image": IMAGE, "args": ["-u", "-c", source]} | fields
