"""What only a real container runtime shows: what a container has of its pod, and the runtime's own messages.

See ``support.container_engines``.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from support.container_engines import agent_of, container, needs_real, stand_in
from support.fleets import ControlPlane
from support.node_agent import Agent, pod, status_of

pytestmark = [pytest.mark.kubernetes, needs_real]

LOOK = """
import json, os, pathlib, socket, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
try:
    pathlib.Path("/new").touch()
    written = ""
except OSError as error:
    written = error.strerror
memory = os.statvfs("/dev/shm")
print(json.dumps({
    "capabilities": int(status["CapEff"], 16),
    "groups": sorted(os.getgroups()),
    "hostname": socket.gethostname(),
    "no new privileges": int(status["NoNewPrivs"]),
    "shared memory": memory.f_frsize * memory.f_blocks,
    "user": [os.getuid(), os.getgid()],
    "variables": {name: os.environ[name] for name in sys.argv[1:]},
    "working directory": os.getcwd(),
    "written": written,
}))
"""

VALUES = {
    "BACKSLASH": "a\\b\\n",
    "DOLLAR": "$HOME ${PATH}",
    "EMPTY": "",
    "HASH": "a#b # c",
    "LINES": "a\nb\n",
    "PADDED": " a ",
    "QUOTES": "'a' \"b\"",
    "UNICODE": "grüß",
}


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: a node that these tests leave behind is nobody else's."""
    return own_control_plane


@pytest.fixture
async def agent(
    control_plane: ControlPlane, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Agent]:
    async with agent_of(control_plane, client, stand_in(tmp_path / "engine"), monkeypatch) as started:
        yield started


def state(found: Object) -> Object:
    """Return the state of the container of a pod."""
    current: Object = status_of(found).get("state", {})
    return current


def has_ended(found: Object) -> bool:
    return "terminated" in state(found)


async def test_a_container_has_the_variables_user_and_limits_of_its_pod(agent: Agent) -> None:
    looking = container(
        LOOK,
        args=["-c", LOOK, *VALUES],
        env=[{"name": name, "value": value} for name, value in VALUES.items()],
        workingDir="/tmp",
        securityContext={
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsGroup": 3000,
            "runAsUser": 1000,
        },
        volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}],
    )
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}}]
    security = {"supplementalGroups": [4000]}
    await agent.create(
        pod("looking", looking, restartPolicy="Never", securityContext=security, volumes=volumes)
    )
    ended = await agent.pod("looking", has_ended)
    printed = await asyncio.to_thread(agent.kubectl, "logs", "looking")
    assert state(ended)["terminated"]["exitCode"] == 0, printed
    assert json.loads(printed) == {
        "capabilities": 0,
        "groups": [3000, 4000],
        "hostname": "looking",
        "no new privileges": 1,
        "shared memory": 128 << 20,
        "user": [1000, 3000],
        "variables": VALUES,
        "working directory": "/tmp",
        "written": "Read-only file system",
    }


async def test_a_container_that_uses_more_memory_than_its_limit_is_killed(agent: Agent) -> None:
    limits = {"limits": {"memory": "64Mi", "cpu": "500m"}}
    eating = container("held = [bytearray(2 ** 20) for _ in range(256)]", resources=limits)
    await agent.create(pod("eating", eating, restartPolicy="Never"))
    terminated = state(await agent.pod("eating", has_ended))["terminated"]
    assert terminated["exitCode"] == 128 + signal.SIGKILL
    # Podman 4.3 does not report the cause with control groups of version 1.
    assert terminated["reason"] in {"OOMKilled", "Error"}


async def test_an_image_that_cannot_be_pulled_is_told_with_the_reason_of_the_runtime(agent: Agent) -> None:
    unreachable = container("", image="127.0.0.1:1/none:1")
    await agent.create(pod("unpulled", unreachable, terminationGracePeriodSeconds=1))

    def has_failed(found: Object) -> bool:
        return bool(state(found).get("waiting", {}).get("reason") == "ErrImagePull")

    waiting = state(await agent.pod("unpulled", has_failed))["waiting"]
    assert waiting["message"].startswith('cannot pull image "127.0.0.1:1/none:1": ')
    assert "connection refused" in waiting["message"]
