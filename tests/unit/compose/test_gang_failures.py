"""Gangs that fail: the cause outlives the pods, which LeaderWorkerSet deletes at the first restart."""

from typing import Any

import pytest

from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition
from support.replicas import composed, engine, gang, manifest, replica

KEY = "model-gang-qwen"
BROKEN = "the engine exited with status 1: no such file"


def _set(ready: int = 0) -> dict[str, Any]:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "qwen", "annotations": {}},
        "spec": {"replicas": 1},
        "status": {"readyReplicas": ready, "replicas": 1, "updatedReplicas": 1},
    }


def _pod(
    name: str, minute: int, *, fails: bool = False, leaves: bool = False, ends: int = 0
) -> dict[str, Any]:
    """Return a pod that was created at a minute, and whose engine failed half a minute later."""
    at = f"2026-01-01T10:{minute:02}:30Z"
    ended = {"terminated": {"exitCode": 1, "message": "no such file", "finishedAt": at}}
    state = {"terminated": {"exitCode": ends, "finishedAt": at}} if ends else {"running": {}}
    labels = {"leaderworkerset.sigs.k8s.io/group-index": name.split("-")[1]}
    status = {"containerStatuses": [{"name": "engine", "state": state, "lastState": ended if fails else {}}]}
    deleted = {"deletionTimestamp": at} if leaves else {}
    created = {"creationTimestamp": f"2026-01-01T10:{minute:02}:00Z"}
    return {"metadata": {"name": name, "labels": labels, **created, **deleted}, "status": status}


def _composed(*pods: dict[str, Any], before: Composition | None = None, ready: int = 0) -> Composition:
    wire = manifest(gang())
    if before is not None:
        wire["status"] = {"engineFailures": list(before.status.get("engineFailures", ()))}
    return composed(decode_as(ModelReplica, wire), {KEY: _set(ready)}, **{"pods-qwen": pods})


def _said(composition: Composition) -> str:
    return next(each.message for each in composition.conditions if each.type == "ModelReady")


def _counted(composition: Composition) -> list[int]:
    return [each["failures"] for each in composition.status.get("engineFailures", ())]


FIRST = _pod("qwen-0", 1, fails=True, leaves=True)


def test_a_failure_is_told_while_its_pod_is_deleted_and_after_it_is_gone() -> None:
    first = _composed(FIRST)
    assert f'pod "qwen-0": {BROKEN}; failed once' in _said(first)
    gone = _composed(before=first)
    assert _said(gone) == _said(first)
    assert _counted(gone) == [1]


def test_failures_are_counted_by_groups_of_pods() -> None:
    said = _composed(FIRST)
    said = _composed(FIRST, before=said)
    assert _counted(said) == [1], "the same pod, seen again"
    said = _composed(_pod("qwen-0-1", 1, fails=True, leaves=True), before=said)
    assert _counted(said) == [1], "a worker of the same group"
    said = _composed(_pod("qwen-0", 2), before=said)
    assert _counted(said) == [1], "the next group, which starts"
    said = _composed(_pod("qwen-0", 2, fails=True), before=said)
    assert _counted(said) == [2]
    assert "failed 2 times, and all pods of the engine are replaced each time" in _said(said)


def test_the_pod_that_failed_first_is_named() -> None:
    worker = _pod("qwen-0-1", 1, fails=True)
    leader = _pod("qwen-0", 2, fails=True)
    assert 'pod "qwen-0-1"' in _said(_composed(leader, worker))


def test_a_pod_that_ends_because_it_is_deleted_has_not_failed() -> None:
    assert _counted(_composed(_pod("qwen-0", 1, leaves=True, ends=143))) == []
    assert _counted(_composed(_pod("qwen-0", 1, ends=143))) == [1]


def test_what_keeps_the_next_group_waiting_is_told_first() -> None:
    waiting = _pod("qwen-0", 2)
    waiting["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no device"}]}
    said = _said(_composed(waiting, before=_composed(FIRST)))
    assert 'east": pod "qwen-0": no device; before, pod "qwen-0": the engine exited' in said


def test_a_gang_that_serves_has_no_failures() -> None:
    serving = _composed(_pod("qwen-0", 2), before=_composed(FIRST), ready=1)
    assert _counted(serving) == []
    assert _said(serving).startswith("every engine serves")


@pytest.mark.parametrize(
    ("pods", "serves"),
    [
        pytest.param((_pod("qwen-0", 1), _pod("qwen-0-1", 1)), True, id="no pod is deleted"),
        pytest.param((_pod("qwen-0", 1, leaves=True), _pod("qwen-0-1", 1)), False, id="the leader is"),
        pytest.param((_pod("qwen-0", 1), _pod("qwen-0-1", 1, leaves=True)), False, id="a worker is"),
        pytest.param(
            (_pod("qwen-0", 2), _pod("qwen-0-1", 1, leaves=True), _pod("qwen-0-2", 1, leaves=True)),
            False,
            id="the workers of the group before",
        ),
        pytest.param(
            (_pod("qwen-0", 1, leaves=True), _pod("qwen-1", 1), _pod("qwen-1-1", 1)), True, id="of one group"
        ),
        pytest.param(
            (_pod("qwen-0", 1, leaves=True), _pod("qwen-1", 1), _pod("qwen-1-1", 1, leaves=True)),
            False,
            id="of each group",
        ),
        pytest.param((), True, id="pods are not seen"),
    ],
)
def test_a_gang_serves_while_a_group_keeps_all_its_pods(
    pods: tuple[dict[str, Any], ...], serves: bool
) -> None:
    assert _composed(*pods, ready=1).ready is serves, "whatever LeaderWorkerSet counts"


def test_times_that_cannot_be_read_count_nothing() -> None:
    for broken in ({"creationTimestamp": "soon"}, {"creationTimestamp": ""}):
        pod = _pod("qwen-0", 1, fails=True)
        pod["metadata"] |= broken
        assert _counted(_composed(pod)) == []
        assert BROKEN in _said(_composed(pod))


def test_the_failures_of_an_engine_of_one_pod_are_those_of_its_pod() -> None:
    pods = {"pods-qwen": (_pod("qwen-0", 1, fails=True),)}
    assert "engineFailures" not in composed(replica(engine()), {}, **pods).status


@pytest.mark.parametrize("drains", [True, False])
def test_failures_stay_while_pods_are_not_looked_at(drains: bool) -> None:
    failures = _composed(FIRST).status["engineFailures"]
    wire = {**manifest(gang(), draining=drains), "status": {"engineFailures": failures}}
    found = {} if drains else {"cluster": ()}
    said = composed(decode_as(ModelReplica, wire), {KEY: _set()}, **found)
    assert said.status["engineFailures"] == failures
