from pathlib import Path
from typing import Any, cast

import pytest

from modelplane.kubelet.machine import Machine
from modelplane.kubelet.records import AgentDirectory, PodRecord
from modelplane.kubelet.runtime.launch import find_account, find_environment, find_obstacles
from modelplane.kubelet.volumes.service_account import Account, ApiServer

PICKER = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v1"


@pytest.mark.parametrize("is_environment", [True, False])
def test_a_pod_sees_the_environment_of_its_engine(tmp_path: Path, is_environment: bool) -> None:
    """A virtual environment may be below /tmp, which a pod does not see."""
    if is_environment:
        (tmp_path / "pyvenv.cfg").touch()
    expected = (tmp_path,) if is_environment else ()
    assert find_environment(str(tmp_path / "bin" / "vllm")) == expected


class Tokens:
    """A machine whose API server grants every token, and what it was asked for."""

    api_server = ApiServer("127.0.0.1", 6443, b"")

    def __init__(self, folder: Path) -> None:
        self.directory = AgentDirectory(folder)
        self.client = self
        self.asked: list[str] = []

    async def create_token(self, account: str, _namespace: str, _lifetime_s: int, **_bound: Any) -> str:
        self.asked.append(account)
        return "token"


@pytest.mark.parametrize(
    ("image", "spec", "asked"),
    [
        pytest.param(PICKER, {"serviceAccountName": "picker"}, ["picker"], id="a picker"),
        pytest.param("ghcr.io/ggml-org/llama.cpp:server", {}, [], id="an engine"),
        pytest.param(
            PICKER,
            {"serviceAccountName": "picker", "automountServiceAccountToken": False},
            [],
            id="a pod that declines it, whose author chooses the image",
        ),
    ],
)
async def test_only_a_program_that_reads_the_api_gets_a_token(
    tmp_path: Path, image: str, spec: dict[str, Any], asked: list[str]
) -> None:
    machine = Tokens(tmp_path)
    record = PodRecord("ml", "pod", "uid", "127.77.0.2")
    pod = {"metadata": {"namespace": "ml", "name": "pod", "uid": "uid"}, "spec": spec}
    account = await find_account(cast("Machine", machine), pod, record, image)
    assert machine.asked == asked
    assert (account != Account()) is bool(asked)


class OneMachine:
    """A machine, as far as the mount paths of a pod are judged by it."""

    host_commands = False
    closed = frozenset({Path("/people/me")})


def mounting(path: str, image: str = "ghcr.io/ggml-org/llama.cpp:server") -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": path}]
    container = {"name": "engine", "image": image, "volumeMounts": mounts}
    return {"spec": {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}}


def test_a_mount_path_is_an_obstacle_where_a_tenant_chose_it() -> None:
    machine = cast("Machine", OneMachine())
    assert [each.reason for each in find_obstacles(machine, mounting("/etc"))] == ["UnsupportedPod"]
    assert list(find_obstacles(machine, mounting("/data"))) == []
    # A picker starts only where the controllers composed it.
    assert list(find_obstacles(machine, mounting("/config", PICKER))) == []


def test_with_host_commands_a_pod_may_mount_anywhere() -> None:
    machine = OneMachine()
    machine.host_commands = True
    assert list(find_obstacles(cast("Machine", machine), mounting("/etc"))) == []


def test_a_mount_of_an_init_container_is_an_obstacle_for_the_whole_pod() -> None:
    pod = mounting("/data")
    pod["spec"]["initContainers"] = mounting("/usr")["spec"]["containers"]
    assert len(list(find_obstacles(cast("Machine", OneMachine()), pod))) == 1
