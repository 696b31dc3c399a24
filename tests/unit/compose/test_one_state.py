"""Every view says of an object's state the same word and the same first cause."""

import copy
from typing import Any

import pytest

from golden.test_composition import compose
from modelplane.api.kinds import KINDS
from modelplane.cli.inspect import top
from modelplane.compose import owner_status
from modelplane.compose.readiness import read_state
from modelplane.dashboard.snapshot import find_readiness
from modelplane.mcp import fleet_tools
from modelplane.offline.explain.statuses import explain_not_ready
from support.goldens import GOLDENS
from support.object_states import with_status

Object = dict[str, Any]


def _composed(case: Object) -> tuple[Object, Any]:
    """Return the owner of a case with its status, and the composition."""
    done = compose(case)
    return with_status(case["owner"], done, case.get("observed", {})), done


def _failing_replica(waiting: Object, last: Object | None = None) -> Object:
    """Return a case of a replica whose engine does not start."""
    case = GOLDENS.input("model_replica/a-pod-that-ended-with-its-node")
    workload = case["observed"]["model-serving-qwen"]
    workload["status"] = {"observedGeneration": 1, "unavailableReplicas": 1}
    container = {
        "name": "engine",
        "ready": False,
        "restartCount": 4,
        "state": {"waiting": waiting} if waiting else {"running": {}},
        "lastState": last or {},
    }
    pod = {"metadata": {"name": "p", "namespace": "ml-team"}, "status": {"containerStatuses": [container]}}
    case["required"]["pods-qwen"] = [pod]
    return case


def _of_its_deployment(replica: Object) -> Object:
    """Return the case of a deployment that has the replica."""
    case = GOLDENS.input("model_deployment/a-replica-knows-first-that-its-cluster-is-silent")
    case["owner"]["spec"]["replicas"] = 1
    child = case["observed"]["replica-east-0"]
    child["status"] = copy.deepcopy(replica["status"])
    case["observed"] = {"replica-east-0": child}
    case["required"]["replicas"] = [child]
    return case


_ENDED = {"terminated": {"exitCode": 1, "message": "no such file"}}
_CRASH = {"reason": "CrashLoopBackOff"}
_PULL = {"reason": "ImagePullBackOff", "message": "not found"}
_REPLICAS = {
    "a crash loop": (_failing_replica(_CRASH, _ENDED), "CrashLoopBackOff", "no such file"),
    "a crash loop, between two attempts": (_failing_replica({}, _ENDED), "CrashLoopBackOff", "no such file"),
    "an image that cannot be pulled": (_failing_replica(_PULL), "ImagePullBackOff", "not found"),
}
_CASES = [
    *(pytest.param(*row, id=f"a replica with {name}") for name, row in _REPLICAS.items()),
    *(
        pytest.param(_of_its_deployment(_composed(case)[0]), word, cause, id=f"a deployment with {name}")
        for name, (case, word, cause) in _REPLICAS.items()
    ),
    pytest.param(
        GOLDENS.input("model_deployment/shortfall-is-not-ready"),
        "InsufficientCapacity",
        "replicas placed",
        id="a deployment that is not placed",
    ),
    pytest.param(
        GOLDENS.input("model_deployment/unreachable-cluster-is-reported"),
        "ClusterUnreachable",
        "cannot observe the replicas on cluster",
        id="a deployment whose cluster is lost",
    ),
    pytest.param(
        GOLDENS.input("model_replica/silent-cluster-keeps-what-serves"),
        "ClusterUnreachable",
        'cluster "east" is unreachable',
        id="a replica whose cluster is lost",
    ),
    pytest.param(
        GOLDENS.input("model_service/address-of-an-unknown-backend-waits"),
        "WaitingForGateway",
        "",
        id="a service without a gateway",
    ),
    pytest.param(
        GOLDENS.input("model_deployment/standby-runs-no-replicas-while-the-preferred-fits"),
        "Available",
        "",
        id="a standby that is not needed",
    ),
]


@pytest.mark.parametrize(("case", "word", "cause"), _CASES)
def test_every_view_says_the_same_word(case: Object, word: str, cause: str) -> None:
    item, composition = _composed(case)
    [kind] = [kind for kind in KINDS if kind.name == item["kind"]]
    [ready] = [each for each in item["status"]["conditions"] if each["type"] == "Ready"]
    [column] = [column for column in kind.columns if column.name == "REASON"]
    state, readiness = read_state(item), find_readiness(item)
    assert column.path == ".status.conditions[?(@.type=='Ready')].reason"
    assert {ready["reason"], state.word, readiness.word, top._state(readiness)} == {word}
    assert state.cause == readiness.why
    assert cause in state.cause
    if not state.is_ready:
        [[*_, told]] = fleet_tools._columns(kind).tabulate("", [item]).rows
        assert explain_not_ready(item) == told == f"{word}: {state.cause}"
        # The event of a condition has its reason and its message.
        before = [{"type": each.type, "status": "True", "reason": "R"} for each in composition.conditions]
        events = owner_status.list_transitions(composition.conditions, before)
        assert next(each.message for each in events if each.reason == word) == state.cause


def test_the_column_of_a_deployment_counts_ready_and_desired_replicas() -> None:
    item, _ = _composed(GOLDENS.input("model_deployment/shortfall-is-not-ready"))
    columns = {column.name: column.path for column in next(k for k in KINDS if k.short == "md").columns}
    assert list(columns) == ["READY", "REASON", "CLUSTERS", "SYNCED", "AGE"]
    assert columns["READY"] == ".status.summary.ready"
    ready, desired = item["status"]["summary"]["ready"].split("/")
    assert (int(ready), int(desired)) == (item["status"]["replicas"]["ready"], item["spec"]["replicas"])
