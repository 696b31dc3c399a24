from typing import Any

import pytest

from modelplane.kubelet.pod_refusals import find_host_refusals

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
ELSEWHERE = ", or run it on a cluster whose nodes have a container runtime"


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "engine", "image": "x"} | (container or {})]} | spec}


def mounted(path: str, volume: dict[str, Any]) -> dict[str, Any]:
    mount = {"volumeMounts": [{"name": "v", "mountPath": path}]}
    return pod(mount, volumes=[{"name": "v"} | volume])


@pytest.mark.parametrize(
    "accepted",
    [
        pytest.param(pod(), id="one plain container"),
        pytest.param(
            pod(initContainers=[{"name": "fetch"}, {"name": "log", "restartPolicy": "Always"}]),
            id="an init container and a sidecar",
        ),
        pytest.param({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}, id="a second container"),
        pytest.param(mounted("/dev/shm", {"emptyDir": {"medium": "Memory"}}), id="shared memory"),
        pytest.param(mounted("/models", {"persistentVolumeClaim": {"claimName": "x"}}), id="a claim"),
        pytest.param(
            mounted("/x", {"projected": {"sources": [{"secret": {"name": "s"}}]}}), id="a projection"
        ),
        pytest.param(mounted(TOKEN, {"projected": {}}), id="the token that every pod gets"),
        pytest.param(
            pod(
                {
                    "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                    "livenessProbe": {"tcpSocket": {"port": 1}},
                }
            ),
            id="a hook and a probe that need no container",
        ),
    ],
)
def test_a_pod_that_a_host_process_can_be(accepted: dict[str, Any]) -> None:
    assert find_host_refusals(accepted) == ()


@pytest.mark.parametrize(
    ("refused", "cause"),
    [
        pytest.param(
            pod(initContainers=[{"name": "fetch", "workingDir": "/app"}]),
            'the working directory "/app" belongs to the image: remove workingDir',
            id="an init container that needs its image",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a"}, {"name": "b", "volumeDevices": [{"name": "v"}]}]}},
            "a host process does not support block devices as volumes: remove volumeDevices",
            id="a second container with a block device",
        ),
        pytest.param(
            mounted("/models", {"nfs": {"server": "s", "path": "/"}}),
            'volume "v" cannot be mounted at "/models": a host process does not support volumes '
            "of kind nfs: use "
            "another kind",
            id="a volume of a kind that needs more than files",
        ),
        pytest.param(
            mounted("/t", {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
            'volume "v" cannot be mounted at "/t": source serviceAccountToken belongs to a cluster: remove '
            "it",
            id="a token where no token is by admission",
        ),
        pytest.param(
            mounted("models", {"emptyDir": {}}),
            'volume "v" cannot be mounted at "models": not an absolute path below the root: use one',
            id="a path from nowhere",
        ),
        pytest.param(
            mounted("/", {"emptyDir": {}}),
            'volume "v" cannot be mounted at "/": not an absolute path below the root: use one',
            id="the root",
        ),
        pytest.param(
            pod({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}),
            "a host process does not support block devices as volumes: remove volumeDevices",
            id="a block device",
        ),
        pytest.param(
            pod({"workingDir": "/app"}),
            'the working directory "/app" belongs to the image: remove workingDir',
            id="a working directory",
        ),
        pytest.param(
            pod({"readinessProbe": {"exec": {"command": ["true"]}}}),
            (
                "the readinessProbe uses exec, which is not supported for a host process: use "
                "httpGet, tcpSocket or grpc"
            ),
            id="a probe that is a command",
        ),
        pytest.param(
            pod({"lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}}}),
            "the preStop hook uses exec, which is not supported for a host process: use sleep or httpGet",
            id="a hook that executes",
        ),
        pytest.param(
            pod({"lifecycle": {"postStart": {"sleep": {"seconds": 1}}}}),
            "postStart hooks are not supported for a host process: remove it",
            id="a hook after the start",
        ),
    ],
)
def test_a_pod_that_it_cannot_be(refused: dict[str, Any], cause: str) -> None:
    [rejected] = find_host_refusals(refused)
    assert (rejected.reason, rejected.message) == ("UnsupportedPod", cause + ELSEWHERE)
