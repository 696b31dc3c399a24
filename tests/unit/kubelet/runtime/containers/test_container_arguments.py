from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelplane.kubelet.runtime.containers import container_arguments
from modelplane.kubelet.runtime.containers.cli import KINDS, Choice
from modelplane.kubelet.runtime.containers.container_arguments import (
    Contents,
    Unwritable,
    create,
    lines,
    published,
)
from modelplane.kubelet.volumes.mounts import Mount

IMAGE = "docker.io/owner/engine:1"
PLAIN = Contents(labels={"k": "v"}, address="198.18.1.2", environment={}, memory_bytes=4096)
BEFORE = (
    *("create", "--pull", "never", "--name", "it", "--label", "k=v"),
    *("--network", "modelplane", "--ip", "198.18.1.2", "--hostname", "pod"),
)
LOGS = ("--log-driver", "json-file", "--log-opt", "max-size=10m", "--log-opt", "max-file=2")


def arguments(
    container: dict[str, Any], contents: Contents = PLAIN, choice: Choice = Choice.DOCKER, **spec: Any
) -> tuple[str, ...]:
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": [container], **spec}}
    return create(KINDS[choice], "it", IMAGE, pod, contents, "/file")


@pytest.mark.parametrize(
    ("container", "options", "after"),
    [
        pytest.param({}, (), (), id="nothing"),
        pytest.param({"args": ["--a", "b"]}, (), ("--a", "b"), id="arguments keep the image's command"),
        pytest.param(
            {"command": ["sh", "-c"], "args": ["true"]},
            ("--entrypoint", "sh"),
            ("-c", "true"),
            id="a command replaces the image's, with its arguments",
        ),
        pytest.param({"workingDir": "/app"}, ("--workdir", "/app"), (), id="a working directory"),
    ],
)
def test_what_is_executed(
    container: dict[str, Any], options: tuple[str, ...], after: tuple[str, ...]
) -> None:
    made = arguments(container)
    place = made.index("--entrypoint") if "--entrypoint" in made else len(BEFORE)
    assert made[place : place + len(options)] == options
    assert made[made.index(IMAGE) :] == (IMAGE, *after)


@pytest.mark.parametrize(
    ("container", "spec", "options"),
    [
        pytest.param({"ports": [{"containerPort": 1}]}, {}, ("--publish", "127.77.1.2:1:1/tcp"), id="a port"),
        pytest.param(
            {"resources": {"limits": {"memory": "1.5Gi", "cpu": "1500m"}}},
            {},
            ("--memory", "1610612736", "--memory-swap", "1610612736", "--cpus", "1.500"),
            id="limits",
        ),
        pytest.param({"securityContext": {"runAsUser": 1000}}, {}, ("--user", "1000"), id="a user"),
        pytest.param({}, {"securityContext": {"runAsUser": 0}}, ("--user", "0"), id="root"),
        pytest.param(
            {"securityContext": {"runAsUser": 2}},
            {"securityContext": {"runAsUser": 1, "runAsGroup": 3, "fsGroup": 4}},
            ("--user", "2:3", "--group-add", "4"),
            id="the container's user and the pod's groups",
        ),
        pytest.param(
            {
                "securityContext": {
                    "readOnlyRootFilesystem": True,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]},
                }
            },
            {},
            (
                *("--cap-drop", "ALL", "--cap-add", "IPC_LOCK", "--read-only"),
                *("--security-opt", "no-new-privileges"),
            ),
            id="less than the default",
        ),
    ],
)
def test_the_options_of_a_container(
    container: dict[str, Any], spec: dict[str, Any], options: tuple[str, ...]
) -> None:
    assert arguments(container, **spec) == (*BEFORE, *options, *LOGS, IMAGE)


@pytest.mark.parametrize(
    ("mount", "options"),
    [
        pytest.param(
            Mount(Path("/models"), "/m", read_only=True),
            ("--mount", "type=bind,source=/models,target=/m,readonly"),
            id="a folder to read",
        ),
        pytest.param(
            Mount(Path('/a,"b'), "/m", read_only=False),
            ("--mount", 'type=bind,"source=/a,""b",target=/m'),
            id="a name with the separator in it",
        ),
        pytest.param(
            Mount(Path("/dev/shm"), "/dev/shm", read_only=False),
            ("--shm-size", "4096"),
            id="shared memory, as much as there is",
        ),
        pytest.param(
            Mount(Path("/x"), "/scratch", read_only=False, in_memory=True),
            ("--mount", "type=tmpfs,target=/scratch"),
            id="memory",
        ),
    ],
)
def test_a_mount(mount: Mount, options: tuple[str, ...]) -> None:
    assert arguments({}, replace(PLAIN, mounts=(mount,))) == (*BEFORE, *options, *LOGS, IMAGE)


def test_no_value_of_a_variable_is_on_the_command_line() -> None:
    environment = {"TOKEN": "hush", "HOME": "hush", "https_proxy": "hush", "CERT": "hush\nhush"}
    made = arguments({}, replace(PLAIN, environment=environment))
    assert made == (
        *(*BEFORE, "--env", "CERT", "--env", "TOKEN", "--env-file", "/file"),
        *(*LOGS, IMAGE),
    )
    assert lines(environment) == "HOME=hush\nhttps_proxy=hush\n"


def test_a_variable_of_several_lines_that_engines_read_themselves_is_refused() -> None:
    with pytest.raises(Unwritable) as caught:
        lines({"DOCKER_CERT": "a\nb"})
    assert str(caught.value) == (
        'cannot set variable "DOCKER_CERT": its value has several lines, and container engines read the '
        "variable themselves: call it something else"
    )


def test_gpus_are_given_by_the_engine() -> None:
    made = arguments({}, replace(PLAIN, gpus=("GPU-1",)), Choice.PODMAN)
    assert made == (
        *(*BEFORE, "--device", "nvidia.com/gpu=GPU-1", "--log-driver", "k8s-file"),
        *("--log-opt", "max-size=10mb", IMAGE),
    )


def test_what_is_probed_is_published_too() -> None:
    container = {
        "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 80, "name": "http"}],
        "livenessProbe": {"httpGet": {"port": "http"}},
        "readinessProbe": {"tcpSocket": {"port": 9}},
        "lifecycle": {"preStop": {"httpGet": {"port": 8}}},
    }
    assert published(container) == ("8:8/tcp", "9:9/tcp", "53:53/udp", "80:80/tcp")


def test_a_name_of_a_host_is_as_long_as_it_may_be() -> None:
    pod = {"metadata": {"name": "a" * 62 + "-b"}, "spec": {"containers": [{}]}}
    made = create(KINDS[Choice.DOCKER], "it", IMAGE, pod, PLAIN, "/file")
    assert made[made.index("--hostname") + 1] == "a" * 62


def test_no_two_attempts_have_containers_of_one_name() -> None:
    assert container_arguments.name("uid", "engine", 3) == "modelplane-uid-engine-3"
