import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.cli.processes.agent import agent
from modelplane.kubelet.runtime.container_cli import (
    RUNTIME_KINDS,
    Choice,
    ContainerRuntimeError,
    ContainerRuntimes,
    NoSuchObject,
    describe_failure,
    find_runtime,
)
from support.fake_docker import IMAGE, FakeDocker


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDocker]:
    engine = FakeDocker(tmp_path / "engine")
    monkeypatch.setenv("PATH", f"{engine.path}:{os.environ['PATH']}")
    yield engine
    engine.stop()


async def found(choice: Choice) -> str:
    engine = await ContainerRuntimes(choice).find_answering()
    return engine.name if engine else ""


async def test_an_engine_that_answers_is_found(docker: FakeDocker) -> None:
    docker.has(IMAGE)
    assert (await found(Choice.AUTO), await found(Choice.DOCKER)) == ("docker", "docker")


@pytest.mark.usefixtures("docker")
async def test_no_engine_is_looked_for_where_none_is_wanted() -> None:
    assert (await found(Choice.NONE), await found(Choice.NERDCTL)) == ("", "")


async def test_a_program_behind_which_nothing_answers_is_none(
    docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # No other engine of this machine.
    monkeypatch.setenv("PATH", f"{docker.path}:/nowhere")
    docker.fault(away=True)
    engines = ContainerRuntimes(Choice.AUTO, remembered_s=0.0)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert await engines.find_answering() is None
        assert [record.getMessage() for record in caplog.records] == ["no container runtime answers (auto)"]
        caplog.clear()
        monkeypatch.setenv("PATH", f"{docker.path}:{os.environ['PATH']}:/bin:/usr/bin")
        docker.fault()
        assert await engines.find_answering() == find_runtime("docker")
    assert [record.getMessage() for record in caplog.records] == ["new pods run in containers of docker"]


async def test_an_engine_that_says_nothing_is_not_waited_for_for_ever(docker: FakeDocker) -> None:
    docker.fault(latency_s=30)
    with pytest.raises(ContainerRuntimeError, match=r"docker did not answer within 0.2 s"):
        await find_runtime("docker").do("version", timeout_s=0.2)


async def test_a_command_that_nobody_waits_for_any_more_is_ended(docker: FakeDocker) -> None:
    docker.fault(latency_s=30)
    asking = asyncio.create_task(find_runtime("docker").do("version"))
    async with asyncio.timeout(10):
        while not docker.calls("version"):
            await asyncio.sleep(0.02)
    asking.cancel()
    async with asyncio.timeout(5):
        await asyncio.wait({asking})
    assert asking.cancelled()


async def test_a_program_that_is_not_there_is_an_engine_that_does_not_answer() -> None:
    with pytest.raises(ContainerRuntimeError, match="cannot run nerdctl: No such file or directory"):
        await find_runtime("nerdctl").do("version")


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        pytest.param(
            "Error response from daemon: No such container: x\n",
            NoSuchObject,
            "No such container: x",
            id="Docker, of a container",
        ),
        pytest.param(
            "Error: inspecting object: x: image not known",
            NoSuchObject,
            "inspecting object: x: image not known",
            id="Podman, of an image",
        ),
        pytest.param(
            "Unable to find image\nError response from daemon: conflict\nRun 'docker --help'\n",
            ContainerRuntimeError,
            "conflict",
            id="the line that says what happened",
        ),
        pytest.param(
            "dial unix /run/docker.sock: connect: no such file or directory",
            ContainerRuntimeError,
            "dial unix /run/docker.sock: connect: no such file or directory",
            id="that its own socket is missing, which is nothing about containers",
        ),
        pytest.param("", ContainerRuntimeError, "docker failed without a reason", id="nothing"),
    ],
)
def test_what_an_engine_says_when_it_fails(
    said: str, kind: type[ContainerRuntimeError], message: str
) -> None:
    error = describe_failure("docker", said)
    assert (type(error), str(error)) == (kind, message)


@pytest.mark.parametrize(
    ("choice", "options"),
    [
        pytest.param(Choice.DOCKER, ("--gpus", '"device=GPU-1,GPU-2"'), id="Docker"),
        pytest.param(
            Choice.PODMAN,
            ("--device", "nvidia.com/gpu=GPU-1", "--device", "nvidia.com/gpu=GPU-2"),
            id="Podman, by the names of the Container Device Interface",
        ),
        pytest.param(Choice.NERDCTL, ("--gpus", '"device=GPU-1,GPU-2"'), id="nerdctl"),
    ],
)
def test_a_container_gets_the_gpus_that_were_allocated(choice: Choice, options: tuple[str, ...]) -> None:
    assert RUNTIME_KINDS[choice].devices(("GPU-1", "GPU-2")) == options


def test_the_command_offers_every_choice() -> None:
    (option,) = (each for each in agent.params if each.name == "container_engine")
    assert list(option.type.to_info_dict()["choices"]) == [str(choice) for choice in Choice]
