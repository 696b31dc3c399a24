from typing import Any

import pytest

from modelplane.compose.replica.backends.engine_pods import node_rules
from modelplane.compose.replica.backends.table import marks_of
from modelplane.compose.replica.backends.workload import Workload
from support.replicas import engine, member, replica

GROUP = "leaderworkerset.sigs.k8s.io/group-key"


def _apart(leader_claims: bool, worker_claims: bool) -> dict[str, list[Any]]:
    owner = replica(
        engine("e", member("Leader", claims=leader_claims), member("Worker", claims=worker_claims))
    )
    workload = Workload(owner, owner.spec.engines[0], "e", marks_of(owner, owner.spec.engines[0]))
    rules = {each.role: node_rules(workload, each) for each in owner.spec.engines[0].members}
    return {
        role: [
            (term["topologyKey"], term["matchLabelKeys"], term["labelSelector"].get("matchExpressions"))
            for term in rule["affinity"]
            .get("podAntiAffinity", {})
            .get("requiredDuringSchedulingIgnoredDuringExecution", ())
        ]
        for role, rule in rules.items()
    }


APART = ("kubernetes.io/hostname", [GROUP])
NO_LEADER = [{"key": "modelplane.ai/lws-role", "operator": "DoesNotExist"}]


@pytest.mark.parametrize(
    ("leader_claims", "worker_claims", "leader", "worker"),
    [
        pytest.param(True, True, [(*APART, None)], [(*APART, None)], id="all pods of a gang that claims"),
        pytest.param(
            False, True, [], [(*APART, NO_LEADER)], id="the workers, where the leader claims nothing"
        ),
        pytest.param(True, False, [], [], id="nobody, where only the one leader claims"),
    ],
)
def test_who_must_be_on_a_node_of_its_own(
    leader_claims: bool, worker_claims: bool, leader: list[Any], worker: list[Any]
) -> None:
    assert _apart(leader_claims, worker_claims) == {"Leader": leader, "Worker": worker}


def _spread(**settings: Any) -> list[tuple[str, str]]:
    owner = replica(engine("e", **settings))
    workload = Workload(owner, owner.spec.engines[0], "e", marks_of(owner, owner.spec.engines[0]))
    rules = node_rules(workload, workload.head)["topologySpreadConstraints"]
    return [(rule["topologyKey"], rule["whenUnsatisfiable"]) for rule in rules]


def test_copies_wish_to_be_on_other_nodes_and_in_other_zones() -> None:
    assert _spread() == [
        ("kubernetes.io/hostname", "ScheduleAnyway"),
        ("topology.kubernetes.io/zone", "ScheduleAnyway"),
    ]


def test_the_phases_of_a_request_wish_to_be_in_one_zone() -> None:
    assert _spread(phase="Decode") == [("kubernetes.io/hostname", "ScheduleAnyway")]


def test_the_number_of_copies_is_not_part_of_the_pods() -> None:
    assert _spread(copies=1) == _spread(copies=3)
