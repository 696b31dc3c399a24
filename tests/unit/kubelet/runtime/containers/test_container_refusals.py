from typing import Any

import pytest

from modelplane.kubelet.pod_refusals import find_container_refusals

ELSEWHERE = ", or run it on a cluster of its own nodes"


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "engine", "image": "x"} | (container or {})]} | spec}


@pytest.mark.parametrize(
    "accepted",
    [
        pytest.param(pod(), id="one plain container"),
        pytest.param(pod({"workingDir": "/app"}), id="a working directory"),
        pytest.param(pod(initContainers=[{"name": "fetch"}]), id="an init container"),
        pytest.param({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}, id="a second container"),
        pytest.param(pod(shareProcessNamespace=True), id="one container, which shares with itself"),
        pytest.param(
            pod(
                {
                    "livenessProbe": {"exec": {"command": ["true"]}},
                    "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
                }
            ),
            id="a probe and a hook that execute",
        ),
        pytest.param(
            pod(
                {"securityContext": {"capabilities": {"add": ["IPC_LOCK", "CAP_SYS_NICE"], "drop": ["ALL"]}}},
                securityContext={"runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}},
            ),
            id="less than the default, and what stays in the container",
        ),
    ],
)
def test_a_pod_that_a_container_here_can_be(accepted: dict[str, Any]) -> None:
    assert find_container_refusals(accepted) == ()


@pytest.mark.parametrize(
    ("refused", "cause"),
    [
        pytest.param(
            pod(initContainers=[{"name": "fetch", "securityContext": {"privileged": True}}]),
            "the securityContext is privileged, which would give the pod control of this machine: remove it",
            id="what one of several containers may not be",
        ),
        pytest.param(
            pod(initContainers=[{"name": "fetch"}], shareProcessNamespace=True),
            "shareProcessNamespace, which shows each container the other containers' processes, is not "
            "supported here: remove it",
            id="the processes of other containers",
        ),
        pytest.param(
            pod(hostNetwork=True),
            "hostNetwork would give the pod access to this machine: remove it",
            id="the machine's network",
        ),
        pytest.param(
            pod({"securityContext": {"privileged": True}}),
            "the securityContext is privileged, which would give the pod control of this machine: remove it",
            id="every privilege",
        ),
        pytest.param(
            pod({"securityContext": {"capabilities": {"add": ["cap_sys_admin"]}}}),
            "the securityContext adds the capability SYS_ADMIN, which reaches beyond the pod: remove it",
            id="a capability that is as good as every privilege",
        ),
        pytest.param(
            pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
            "the pod's securityContext sets seccompProfile Unconfined, but only the default is supported "
            "here: remove it",
            id="no filter of system calls",
        ),
        pytest.param(
            pod(securityContext={"sysctls": [{"name": "x", "value": "1"}]}),
            "the pod's securityContext sets sysctls, which is not supported here: remove it",
            id="settings of the kernel",
        ),
        pytest.param(
            pod({"securityContext": {"procMount": "Unmasked"}}),
            "the securityContext sets procMount Unmasked, which exposes this machine: remove it",
            id="all of /proc",
        ),
        pytest.param(
            pod({"ports": [{"containerPort": 80, "hostPort": 80}]}),
            (
                "port 80 sets a hostPort, which is not supported: pods are reached at their own "
                "addresses: remove it"
            ),
            id="a port of the machine",
        ),
        pytest.param(
            pod({"ports": [{"containerPort": 80, "protocol": "SCTP"}]}),
            "port 80 uses SCTP, which is not forwarded here: use TCP or UDP",
            id="a protocol that is not forwarded",
        ),
        pytest.param(
            pod({"startupProbe": {"grpc": {"port": 1}}}),
            "the startupProbe uses grpc, which is not supported here: use httpGet, tcpSocket or exec",
            id="a probe by gRPC",
        ),
        pytest.param(
            pod({"lifecycle": {"postStart": {"sleep": {"seconds": 1}}}}),
            "the local node agent does not support postStart hooks: remove it",
            id="a hook after the start",
        ),
        pytest.param(
            pod(
                {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
                volumes=[{"name": "v", "nfs": {"path": "/"}}],
            ),
            'volume "v" cannot be mounted at "/v": a pod here does not support volumes of kind '
            "nfs: use another "
            "kind",
            id="a volume of a kind that is not here",
        ),
    ],
)
def test_a_pod_that_it_cannot_be(refused: dict[str, Any], cause: str) -> None:
    [rejected] = find_container_refusals(refused)
    assert (rejected.reason, rejected.message) == ("UnsupportedPod", cause + ELSEWHERE)
