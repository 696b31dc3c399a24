from dataclasses import replace
from typing import Any

import pytest

from modelplane.kubelet.pods import pod_status
from modelplane.kubelet.pods.views import ContainerView, PodView, Role, Running, Terminated, Waiting

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
        for each in pod_status.build_status(pod, view, NOW)["conditions"]
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
    written = pod_status.build_status(POD, RUNNING, NOW)
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
    obstacle = replace(ENGINE, state=Waiting("NoLauncher", "cannot run it: do this"))
    found = conditions(VIEW.replace_container(obstacle).replace_container(obstacle))
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
    before = POD | {"status": pod_status.build_status(POD, RUNNING, THEN)}
    assert conditions(RUNNING, before)["Ready"][3] == THEN
    assert conditions(seen(**UP | {"ready": False}, container_id="process://u/0"), before)["Ready"][3] == NOW


def test_only_what_differs_is_written() -> None:
    stored = pod_status.build_status(POD, RUNNING, THEN)
    # The API server drops what a patch sets to null, and keeps the conditions of others.
    stored["conditions"] = [
        {key: value for key, value in each.items() if value is not None} for each in stored["conditions"]
    ] + [{"type": "PodScheduled", "status": "True"}]
    pod = POD | {"status": stored}
    assert pod_status.find_changes(pod, pod_status.build_status(pod, RUNNING, NOW)) == {}
    unready = pod_status.build_status(pod, seen(**UP | {"ready": False}, container_id="process://u/0"), NOW)
    assert set(pod_status.find_changes(pod, unready)) == {"conditions", "containerStatuses"}


def test_an_end_is_reported_without_empty_fields() -> None:
    written = pod_status.build_status(POD, seen(state=DONE, finished=True), NOW)
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
    assert (
        pod_status.read_flags(POD | {"status": pod_status.build_status(POD, RUNNING, NOW)}, container_id)
        == told
    )
    assert pod_status.read_flags(POD, container_id) == (False, False)


THREE: dict[str, Any] = POD | {
    "spec": {
        **POD["spec"],
        "initContainers": [
            {"name": "fetch", "image": "f"},
            {"name": "proxy", "image": "p", "restartPolicy": "Always"},
        ],
    }
}
FETCH = ContainerView("fetch", Role.INIT)
FETCHED = replace(FETCH, state=DONE, finished=True, ready=True)
PROXY = ContainerView("proxy", Role.SIDECAR)
SERVING = replace(PROXY, **UP)
STARTING = replace(PROXY, state=Running(THEN))
ENDED = replace(PROXY, state=DONE)


@pytest.mark.parametrize(
    ("view", "phase"),
    [
        pytest.param(seen(FETCH, PROXY), "Pending", id="nothing has started"),
        pytest.param(seen(FETCHED, STARTING), "Pending", id="the sidecar has not started up"),
        pytest.param(seen(FETCHED, SERVING), "Pending", id="the main container is next"),
        pytest.param(seen(FETCHED, SERVING, **UP), "Running", id="all run"),
        pytest.param(seen(FETCHED, ENDED, **UP), "Running", id="the sidecar is to be restarted"),
        pytest.param(
            seen(FETCHED, SERVING, state=DONE, finished=True), "Running", id="the sidecar is yet to end"
        ),
        pytest.param(
            seen(FETCHED, replace(PROXY, state=CRASHED), state=DONE, finished=True),
            "Succeeded",
            id="how a sidecar ends does not count",
        ),
        pytest.param(
            seen(replace(FETCH, state=CRASHED, finished=True), PROXY), "Failed", id="an init container failed"
        ),
        pytest.param(
            seen(replace(FETCH, state=CRASHED), PROXY), "Pending", id="an init container is to be run again"
        ),
    ],
)
def test_the_phase_of_a_pod_of_several_containers(view: PodView, phase: str) -> None:
    assert view.phase == phase


def test_each_container_has_a_status_in_the_list_of_its_kind() -> None:
    written = pod_status.build_status(THREE, seen(FETCHED, SERVING, **UP), NOW)
    assert [each["name"] for each in written["initContainerStatuses"]] == ["fetch", "proxy"]
    assert [each["name"] for each in written["containerStatuses"]] == ["engine"]


@pytest.mark.parametrize(
    ("view", "initialized", "unready"),
    [
        pytest.param(
            seen(replace(FETCH, state=Waiting("NoLauncher", "cannot run it")), PROXY),
            "containers with incomplete status: [fetch proxy]",
            "containers with unready status: [proxy engine]: cannot run it",
            id="an init container cannot start",
        ),
        pytest.param(
            seen(FETCHED, STARTING),
            "containers with incomplete status: [proxy]",
            "containers with unready status: [proxy engine]",
            id="a sidecar starts up",
        ),
        pytest.param(
            seen(FETCHED, ENDED, **UP),
            None,
            'containers with unready status: [proxy]: container "proxy" ended with exit code 0',
            id="a sidecar of a running pod has ended",
        ),
        pytest.param(seen(FETCHED, SERVING, **UP), None, None, id="all are ready"),
    ],
)
def test_conditions_count_init_containers_and_sidecars(
    view: PodView, initialized: str | None, unready: str | None
) -> None:
    found = conditions(view, THREE)
    assert (found["Initialized"][2], found["Ready"][2]) == (initialized, unready)


def test_a_pod_stays_initialized_while_everything_is_restarted() -> None:
    view = seen(FETCHED, SERVING, **UP)
    for ended in (ENDED, replace(view.find_container("engine"), state=CRASHED, last=CRASHED)):
        view = view.replace_container(ended)
    assert conditions(view, THREE)["Initialized"][0] == "True"
    assert view.phase == "Running"
