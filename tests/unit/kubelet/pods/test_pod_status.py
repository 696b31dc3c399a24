from dataclasses import replace
from typing import Any

import pytest

from modelplane.kubelet.pods import pod_status
from modelplane.kubelet.pods.views import ContainerView, PodView, Running, Terminated, Waiting

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
POD: dict[str, Any] = {
    "metadata": {"name": "qwen", "generation": 1},
    "spec": {"containers": [{"name": "engine", "image": "ghcr.io/ggml-org/llama.cpp:server"}]},
}
ENGINE = ContainerView("engine", image_id="process://llama.cpp")


def seen(*others: ContainerView, **fields: Any) -> PodView:
    """Return the view of a pod whose engine is beside other containers."""
    return PodView("198.18.1.2", "127.0.0.1", THEN, (*others, replace(ENGINE, **fields)))


VIEW = seen()
CRASHED = Terminated(1, 0, "", THEN, NOW, "process://u/0")
DONE = Terminated(0, 0, "", THEN, NOW, "process://u/0")
UP: dict[str, Any] = {"state": Running(THEN), "started": True, "ready": True}
RUNNING = seen(**UP, container_id="process://u/0")


def conditions(view: PodView, pod: dict[str, Any] = POD) -> dict[str, tuple[str, Any, Any, str]]:
    return {
        each["type"]: (each["status"], each["reason"], each["message"], each["lastTransitionTime"])
        for each in pod_status.status(pod, view, NOW)["conditions"]
    }


@pytest.mark.parametrize(
    ("view", "phase"),
    [
        pytest.param(VIEW, "Pending", id="not started yet"),
        pytest.param(RUNNING, "Running", id="running"),
        pytest.param(seen(state=CRASHED), "Running", id="ended, to be started again"),
        pytest.param(seen(state=Waiting("CrashLoopBackOff"), last=CRASHED), "Running", id="backing off"),
        pytest.param(seen(state=DONE, finished=True), "Succeeded", id="ended well for good"),
        pytest.param(seen(state=CRASHED, finished=True), "Failed", id="ended badly for good"),
    ],
)
def test_the_phase(view: PodView, phase: str) -> None:
    assert view.phase == phase


def test_a_running_pod() -> None:
    written = pod_status.status(POD, RUNNING, NOW)
    assert written["containerStatuses"] == [
        {
            "name": "engine",
            "image": "ghcr.io/ggml-org/llama.cpp:server",
            "imageID": "process://llama.cpp",
            "containerID": "process://u/0",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": THEN}},
            "lastState": {},
        }
    ]
    assert written["podIPs"] == [{"ip": "198.18.1.2"}]
    assert {kind: values[0] for kind, values in conditions(RUNNING).items()} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }


def test_a_pod_that_cannot_start_says_why_in_its_conditions() -> None:
    found = conditions(seen(state=Waiting("NoLauncher", "cannot run it: do this")))
    unready = "containers with unready status: [engine]: cannot run it: do this"
    assert found["Ready"] == ("False", "ContainersNotReady", unready, NOW)
    assert found["PodReadyToStartContainers"] == ("False", "NoLauncher", "cannot run it: do this", NOW)


def test_a_readiness_gate_holds_a_ready_container_back() -> None:
    gated = POD | {"spec": POD["spec"] | {"readinessGates": [{"conditionType": "example.com/open"}]}}
    found = conditions(RUNNING, gated)
    assert found["ContainersReady"][0] == "True"
    assert found["Ready"][:3] == (
        "False",
        "ReadinessGatesNotReady",
        "readiness gates are not met: example.com/open",
    )
    opened = gated | {"status": {"conditions": [{"type": "example.com/open", "status": "True"}]}}
    assert conditions(RUNNING, opened)["Ready"][0] == "True"


def test_a_condition_that_still_holds_keeps_its_time() -> None:
    before = POD | {"status": pod_status.status(POD, RUNNING, THEN)}
    assert conditions(RUNNING, before)["Ready"][3] == THEN
    assert conditions(seen(**UP | {"ready": False}, container_id="process://u/0"), before)["Ready"][3] == NOW


def test_only_what_differs_is_written() -> None:
    stored = pod_status.status(POD, RUNNING, THEN)
    # The API server drops what a patch sets to null, and keeps the conditions of others.
    stored["conditions"] = [
        {key: value for key, value in each.items() if value is not None} for each in stored["conditions"]
    ] + [{"type": "PodScheduled", "status": "True"}]
    pod = POD | {"status": stored}
    assert pod_status.changes(pod, pod_status.status(pod, RUNNING, NOW)) == {}
    unready = pod_status.status(pod, seen(**UP | {"ready": False}, container_id="process://u/0"), NOW)
    assert set(pod_status.changes(pod, unready)) == {"conditions", "containerStatuses"}


def test_an_end_is_reported_without_empty_fields() -> None:
    written = pod_status.status(POD, seen(state=DONE, finished=True), NOW)
    assert written["containerStatuses"][0]["state"] == {
        "terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": THEN,
            "finishedAt": NOW,
            "containerID": "process://u/0",
        }
    }


@pytest.mark.parametrize(
    ("container_id", "told"),
    [
        pytest.param("process://u/0", (True, True), id="the one that was reported"),
        pytest.param("process://u/1", (False, False), id="the next attempt"),
        pytest.param("", (False, False), id="one without an identity"),
    ],
)
def test_what_was_told_of_a_container_holds_for_that_one_alone(
    container_id: str, told: tuple[bool, bool]
) -> None:
    assert pod_status.told(POD | {"status": pod_status.status(POD, RUNNING, NOW)}, container_id) == told
    assert pod_status.told(POD, container_id) == (False, False)
