from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.rejected import Rejected
from modelplane.kubelet.runtime.container_arguments import (
    ContainerIdentity,
    ContainerInputs,
    CreateArguments,
    create_arguments,
    list_published_ports,
    name_container,
    run_as_user,
)
from modelplane.kubelet.runtime.container_cli import RUNTIME_KINDS, Choice
from modelplane.kubelet.volumes.mounts import Mount
from support.rejections import message_of

IMAGE = "docker.io/owner/engine:1"
IT = ContainerIdentity("it", {"k": "v"})
PLAIN = ContainerInputs(address="198.18.1.2", environment={}, memory_bytes=4096)
BEFORE = (
    *("create", "--pull", "never", "--name", "it", "--label", "k=v"),
    *("--network", "modelplane", "--ip", "198.18.1.2", "--hostname", "pod"),
)
LOGS = ("--log-driver", "json-file", "--log-opt", "max-size=10m", "--log-opt", "max-file=2")


def created(
    container: dict[str, Any], inputs: ContainerInputs = PLAIN, choice: Choice = Choice.DOCKER, **spec: Any
) -> CreateArguments | Rejected:
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": [container], **spec}}
    return create_arguments(RUNTIME_KINDS[choice], IT, IMAGE, pod, inputs, "/file")


def arguments(
    container: dict[str, Any], inputs: ContainerInputs = PLAIN, choice: Choice = Choice.DOCKER, **spec: Any
) -> tuple[str, ...]:
    made = created(container, inputs, choice, **spec)
    assert isinstance(made, CreateArguments)
    return made.arguments


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param({}, (*BEFORE, *LOGS, IMAGE), id="nothing"),
        pytest.param(
            {"args": ["--a", "b"]},
            (*BEFORE, *LOGS, IMAGE, "--a", "b"),
            id="arguments keep the image's command",
        ),
        pytest.param(
            {"command": ["sh", "-c"], "args": ["true"]},
            (*BEFORE, *LOGS, "--entrypoint", "sh", IMAGE, "-c", "true"),
            id="a command replaces the image's, with its arguments",
        ),
        pytest.param(
            {"workingDir": "/app"}, (*BEFORE, "--workdir", "/app", *LOGS, IMAGE), id="a working directory"
        ),
    ],
)
def test_what_is_executed(container: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert arguments(container) == expected


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
        pytest.param(
            {"resources": {"limits": {"memory": "500m", "cpu": "100u"}}},
            {},
            ("--memory", "1", "--memory-swap", "1", "--cpus", "0.001"),
            id="limits below one unit, which rounded down would be none",
        ),
        pytest.param(
            {"resources": {"limits": {"memory": "1500m", "cpu": "1000100u"}}},
            {},
            ("--memory", "2", "--memory-swap", "2", "--cpus", "1.001"),
            id="limits between two units",
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
            Mount(Path("/link"), "/m", read_only=True, real=Path("/models")),
            ("--mount", "type=bind,source=/models,target=/m,readonly"),
            id="the folder that a link led to when it was checked",
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
            Mount(Path("/dev/shm"), "/dev/shm", read_only=False, in_memory=True, size_bytes=1024),
            ("--shm-size", "1024"),
            id="shared memory of a size",
        ),
        pytest.param(
            Mount(Path("/x"), "/scratch", read_only=False, in_memory=True, size_bytes=1024),
            ("--mount", "type=tmpfs,target=/scratch,tmpfs-size=1024"),
            id="memory of a size",
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
    assert created({}, replace(PLAIN, environment=environment)) == CreateArguments(
        (*BEFORE, "--env", "CERT", "--env-file", "/file", *LOGS, IMAGE),
        {"CERT": "hush\nhush"},
        "TOKEN=hush\nHOME=hush\nhttps_proxy=hush\n",
    )


def test_a_null_character_is_refused() -> None:
    refused = created({}, replace(PLAIN, environment={"A": "a\0b"}))
    assert message_of(refused) == 'cannot set variable "A": its value has a null character: remove it'


def test_a_variable_of_several_lines_that_container_runtimes_read_is_refused() -> None:
    refused = created({}, replace(PLAIN, environment={"DOCKER_CERT": "a\nb"}))
    assert message_of(refused) == (
        'cannot set variable "DOCKER_CERT": its value has several lines, and container runtimes read a '
        "variable of that name themselves: rename it"
    )


def test_gpus_are_given_by_the_container_runtime() -> None:
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
    assert list_published_ports(container) == ("8:8/tcp", "9:9/tcp", "53:53/udp", "80:80/tcp")


def test_a_name_of_a_host_is_as_long_as_it_may_be() -> None:
    pod = {"metadata": {"name": "a" * 62 + "-b"}, "spec": {"containers": [{}]}}
    made = create_arguments(RUNTIME_KINDS[Choice.DOCKER], IT, IMAGE, pod, PLAIN, "/file")
    assert isinstance(made, CreateArguments)
    assert made.arguments[made.arguments.index("--hostname") + 1] == "a" * 62


def test_no_two_attempts_have_containers_of_one_name() -> None:
    assert name_container("uid", "engine", 3) == "modelplane-uid-engine-3"
    assert name_container("uid", "engine", 4) == "modelplane-uid-engine-4"


@pytest.mark.parametrize(
    ("pod", "container", "user"),
    [
        pytest.param({}, {}, "app", id="the image's"),
        pytest.param({"runAsUser": 1}, {}, "1", id="the pod's"),
        pytest.param({"runAsUser": 1}, {"runAsUser": 0}, "0", id="the container's, root too"),
    ],
)
def test_the_user_of_a_container(pod: dict[str, Any], container: dict[str, Any], user: str) -> None:
    assert run_as_user(pod, container, "app") == user
