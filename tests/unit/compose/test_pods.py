from typing import Any

import pytest

from modelplane.compose.replica.pod_problems import trouble, unmade


def _pod(name: str = "p", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": status}


def _container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "engine", "state": state}]


@pytest.mark.parametrize(
    ("pod", "sentence"),
    [
        pytest.param(_pod(), "", id="a pod that nobody has looked at yet"),
        pytest.param(
            _pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "no device"}]),
            'pod "p": no device',
            id="kube-scheduler's own reason",
        ),
        pytest.param(
            _pod(containerStatuses=_container(waiting={"reason": "ContainerCreating"})),
            "",
            id="an ordinary wait is no trouble",
        ),
        pytest.param(
            _pod(containerStatuses=_container(waiting={"reason": "ErrImagePull", "message": "no such"})),
            'pod "p": ErrImagePull: no such',
            id="a container that cannot start",
        ),
        pytest.param(
            _pod(containerStatuses=_container(terminated={"exitCode": 3})),
            'pod "p": the engine exited with status 3',
            id="an engine that died",
        ),
        pytest.param(
            _pod(
                containerStatuses=_container(terminated={"exitCode": 1, "message": "loading\nno such file\n"})
            ),
            'pod "p": the engine exited with status 1: no such file',
            id="an engine that said why",
        ),
        pytest.param(
            _pod(
                containerStatuses=[
                    {
                        "name": "engine",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
                        "lastState": {"terminated": {"exitCode": 1, "message": "no such file"}},
                    }
                ]
            ),
            'pod "p": CrashLoopBackOff: the engine exited with status 1: no such file',
            id="one that keeps dying, without the seconds, which change",
        ),
        pytest.param(
            _pod(
                containerStatuses=_container(
                    terminated={
                        "exitCode": 1,
                        "message": "(APIServer pid=123)   Value error, max_model_len (9000) is greater\n"
                        "(APIServer pid=123)     For further information visit https://errors.example.com\n\n",
                    }
                )
            ),
            'pod "p": the engine exited with status 1: Value error, max_model_len (9000) is greater',
            id="vLLM's last line that says something, without the number of its process",
        ),
        pytest.param(
            _pod(
                containerStatuses=[
                    {
                        "name": "engine",
                        "ready": False,
                        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    }
                ]
            ),
            'pod "p": started again after the engine exited with status 137 (OOMKilled)',
            id="one that loads once more",
        ),
        pytest.param(
            _pod(
                containerStatuses=[
                    {
                        "name": "engine",
                        "ready": True,
                        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                        "lastState": {"terminated": {"exitCode": 1, "message": "x"}},
                    }
                ]
            ),
            "",
            id="one that serves again",
        ),
        pytest.param(
            _pod(containerStatuses=_container(terminated={"exitCode": 0})), "", id="an engine that finished"
        ),
        pytest.param(
            _pod(containerStatuses=_container(terminated={"exitCode": 137, "reason": "OOMKilled"})),
            'pod "p": the engine exited with status 137 (OOMKilled)',
            id="an engine that Kubernetes ended, and why",
        ),
        pytest.param(
            _pod(
                initContainerStatuses=[
                    {
                        "name": "pd-sidecar",
                        "state": {"waiting": {"reason": "ErrImagePull", "message": "no such"}},
                    }
                ]
            ),
            'pod "p": container "pd-sidecar": ErrImagePull: no such',
            id="a sidecar that cannot start",
        ),
        pytest.param(
            _pod(
                initContainerStatuses=[
                    {"name": "pd-sidecar", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}
                ]
            ),
            'pod "p": container "pd-sidecar" exited with status 2',
            id="a sidecar that died",
        ),
    ],
)
def test_what_keeps_a_pod_from_serving_is_said(pod: dict[str, Any], sentence: str) -> None:
    assert trouble([pod]) == (sentence or None)


def test_the_first_pod_by_name_speaks_so_that_the_text_stays_the_same() -> None:
    first = _pod("a", containerStatuses=_container(terminated={"exitCode": 1}))
    second = _pod("b", containerStatuses=_container(terminated={"exitCode": 2}))
    assert trouble([second, first]) == trouble([first, second]) == 'pod "a": the engine exited with status 1'


def test_a_pod_on_its_way_out_is_not_trouble() -> None:
    pod = _pod(containerStatuses=_container(terminated={"exitCode": 1}))
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert trouble([pod]) is None


def _workload(kind: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {"name": "w", "generation": 2},
        "status": {"conditions": list(conditions)},
    }


def _false(type_: str, reason: str = "Why", message: str = "it is so", **more: Any) -> dict[str, Any]:
    return {"type": type_, "status": "False", "reason": reason, "message": message, **more}


@pytest.mark.parametrize(
    ("workload", "sentence"),
    [
        pytest.param(
            _workload(
                "LLMInferenceService", _false("PresetsCombined"), {"type": "Ready", "status": "Unknown"}
            ),
            "Why: it is so",
            id="a condition that is no part of Ready",
        ),
        pytest.param(
            _workload(
                "LLMInferenceService", _false("A", message="first"), _false("Ready", message="the sum")
            ),
            "Why: the sum",
            id="Ready, which sums up the others",
        ),
        pytest.param(_workload("X", _false("A", message="")), "Why", id="a reason alone"),
        pytest.param(_workload("X", _false("A", reason="")), "it is so", id="a message alone"),
        pytest.param(
            _workload("LLMInferenceService", _false("A", observedGeneration=1)),
            "",
            id="of an earlier generation",
        ),
        pytest.param(
            _workload("Deployment", _false("Available", "MinimumReplicasUnavailable")),
            "",
            id="a Deployment that starts",
        ),
        pytest.param(
            _workload("Deployment", _false("Available"), _false("Progressing", "ProgressDeadlineExceeded")),
            "ProgressDeadlineExceeded: it is so",
            id="a Deployment that has given up",
        ),
        pytest.param(
            _workload(
                "LeaderWorkerSet", _false("Available"), _false("Progressing"), _false("UpdateInProgress")
            ),
            "",
            id="a LeaderWorkerSet that starts",
        ),
        pytest.param(
            _workload("LeaderWorkerSet", _false("Available"), _false("Accepted", "Quota")),
            "Quota: it is so",
            id="a condition of others on a LeaderWorkerSet",
        ),
    ],
)
def test_a_workload_without_pods_says_why(workload: dict[str, Any], sentence: str) -> None:
    assert unmade(workload) == (sentence or None)
