from typing import Any

import pytest

from modelplane.api import labels
from modelplane.compose.readiness import is_behind, is_ready, refusal

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
GANG = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}


@pytest.mark.parametrize(
    ("child", "answers"),
    [
        pytest.param({**DEPLOYMENT}, False, id="a Deployment that nobody has looked at"),
        pytest.param({**DEPLOYMENT, "status": {"availableReplicas": 1}}, True, id="one copy of several"),
        pytest.param(
            {**DEPLOYMENT, "status": {"replicas": 2, "readyReplicas": 1}},
            False,
            id="a copy that is ready and not yet available",
        ),
        pytest.param({**GANG, "status": {"readyReplicas": 1}}, True, id="a whole group"),
        pytest.param(
            {**GANG, "status": {"replicas": 1, "readyReplicas": 0}},
            False,
            id="half a group",
        ),
    ],
)
def test_a_workload_serves_once_one_copy_does(child: dict[str, Any], answers: bool) -> None:
    assert is_ready(child) is answers


@pytest.mark.parametrize(
    ("status", "given", "behind"),
    [
        pytest.param({"observedGeneration": 2, "updatedReplicas": 2}, "new", False, id="every copy has it"),
        pytest.param({"updatedReplicas": 2}, "new", False, id="of a kind that counts no generations"),
        pytest.param(
            {"observedGeneration": 2, "updatedReplicas": 2}, None, False, id="without a hash so far"
        ),
        pytest.param({"observedGeneration": 2, "updatedReplicas": 2}, "old", True, id="not edited yet"),
        pytest.param({"observedGeneration": 1, "updatedReplicas": 2}, "new", True, id="nobody took it up"),
        pytest.param({"observedGeneration": 2}, "new", True, id="no copy has it"),
        pytest.param({"observedGeneration": 2, "updatedReplicas": 1}, "new", True, id="one copy has it"),
        pytest.param(
            {"observedGeneration": 2, "updatedReplicas": 2, "replicas": 3}, "new", True, id="one copy is left"
        ),
    ],
)
def test_a_workload_is_behind_until_every_copy_has_the_edit(
    status: dict[str, Any], given: str | None, behind: bool
) -> None:
    desired = {"metadata": {"annotations": {labels.SPEC_HASH: "new"}}, "spec": {"replicas": 2}}
    metadata = {"generation": 2} | ({"annotations": {labels.SPEC_HASH: given}} if given else {})
    counts = {"availableReplicas": 2, "replicas": 2} | status
    assert is_behind(desired, {"kind": "Deployment", "metadata": metadata, "status": counts}) is behind


def _route(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "HTTPRoute",
        "metadata": {"name": "r", "generation": 2},
        "status": {"parents": [{"conditions": list(conditions)}]},
    }


def _condition(type_: str, status: str, generation: int = 2) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": "Because",
        "message": "of that",
        "observedGeneration": generation,
    }


@pytest.mark.parametrize(
    ("route", "why"),
    [
        pytest.param({"metadata": {"generation": 2}}, "", id="a gateway that reports nothing"),
        pytest.param(_route(_condition("Accepted", "True")), "", id="accepted"),
        pytest.param(_route(_condition("Accepted", "False")), "Because: of that", id="not accepted"),
        pytest.param(
            _route(_condition("Accepted", "True"), _condition("ResolvedRefs", "False")),
            "Because: of that",
            id="accepted, but leading nowhere",
        ),
        pytest.param(_route(_condition("ResolvedRefs", "False", 1)), "", id="a word about an earlier form"),
        pytest.param(_route(_condition("Programmed", "False")), "", id="a condition of another kind"),
    ],
)
def test_a_route_is_refused_where_its_gateway_says_so(route: dict[str, Any], why: str) -> None:
    assert refusal(route) == (why or None)
