"""Drains: what moves now, what waits and why, and what a cordon keeps away."""

from typing import Any

import pytest
from msgspec.structs import replace

from modelplane.api.fields.cluster.drain_settings import Cordon
from modelplane.scheduler import (
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    Operator,
    PlacedEngine,
    PlacedMember,
    Pool,
    Reason,
    Replica,
    ResolvedRequest,
    Role,
    Surge,
    Toleration,
    list_moving,
    schedule,
)

GPU = (DeviceRequest("gpu"),)
CLAIM = (ResolvedRequest("gpu", "gpu", 1, ()),)


def cluster(name: str, nodes: int = 2, **fields: Any) -> Cluster:
    pool = Pool("p", nodes, (Device("gpu", "gpu", 1, device_class_name="gpu"),))
    return replace(Cluster(name, gateway_address="192.0.2.1", pools=(pool,)), **fields)


def deployment(replicas: int = 1, **fields: Any) -> Deployment:
    engines = (Engine("main", members=(Member(requests=GPU),)),)
    return replace(Deployment("ml", "qwen", "own", replicas, engines), **fields)


def replica(name: str, where: str, of: str = "own", *, pool: str = "p", **fields: Any) -> Replica:
    placed = (PlacedEngine("main", 1, (PlacedMember(Role.STANDALONE, pool, 1, CLAIM),)),)
    return replace(Replica("ml", name, of, of, where, 0, placed, ready=True), **fields)


DRAINING = cluster("a", cordon=Cordon.DRAINING)


def test_a_draining_cluster_is_left_once_a_replacement_serves() -> None:
    here, there = replica("r1", "a"), replica("r2", "b")
    first = schedule(Fleet((DRAINING, cluster("b")), (here,)), deployment())
    assert [(each.cluster, each.leaving, each.retained) for each in first.assignments] == [
        ("a", True, True),
        ("b", False, False),
    ]
    starting = schedule(Fleet((DRAINING, cluster("b")), (here, replace(there, ready=False))), deployment())
    assert [each.replica for each in starting.assignments] == ["r1", "r2"]
    served = schedule(Fleet((DRAINING, cluster("b")), (here, there)), deployment())
    assert [(each.replica, each.reason) for each in served.dropped] == [
        ("r1", "no longer fits, and no longer needed")
    ]


@pytest.mark.parametrize(
    "doubt",
    [
        pytest.param({"unreachable": "no answer"}, id="its cluster is silent"),
        pytest.param({"draining": True}, id="it was told to withdraw"),
        pytest.param({"ready": False}, id="it is not ready"),
    ],
)
def test_a_replacement_that_is_not_known_to_serve_withdraws_nothing(doubt: dict[str, Any]) -> None:
    fleet = Fleet((DRAINING, cluster("b")), (replica("r1", "a"), replace(replica("r2", "b"), **doubt)))
    assert schedule(fleet, deployment()).dropped == ()


def test_a_replacement_on_a_cluster_that_is_not_ready_withdraws_nothing() -> None:
    fleet = Fleet((DRAINING, cluster("b", ready=False)), (replica("r1", "a"), replica("r2", "b")))
    assert schedule(fleet, deployment()).dropped == ()


def test_a_replica_without_another_place_stays_and_the_refusals_say_why() -> None:
    placement = schedule(Fleet((DRAINING, cluster("b", nodes=0)), (replica("r1", "a"),)), deployment())
    assert [(each.replica, each.leaving) for each in placement.assignments] == [("r1", True)]
    refused = {each.cluster: (each.why.reason, each.why.subject) for each in placement.diagnosis.excluded}
    assert refused["a"] == (Reason.CORDONED, "draining")
    assert [each.change for each in placement.diagnosis.remedies] == [
        'add 1 node to pool p of InferenceCluster "b"'
    ]


def test_a_pool_drains_alone_and_the_other_pool_takes_its_replica() -> None:
    device = (Device("gpu", "gpu", 1, device_class_name="gpu"),)
    pools = (Pool("old", 2, device, cordon=Cordon.DRAINING), Pool("new", 2, device))
    fleet = Fleet(
        (cluster("a", pools=pools),), (replica("r1", "a", pool="old"), replica("r2", "a", pool="new"))
    )
    placement = schedule(fleet, deployment(2))
    assert [
        (each.replica, each.leaving, each.engines[0].members[0].pool) for each in placement.assignments
    ] == [("r1", True, "old"), ("r2", False, "new"), ("", False, "new")]


def test_a_drain_moves_as_many_as_it_may_and_the_others_say_what_they_wait_for() -> None:
    there = tuple(replica(f"r{at}", "a", index=at) for at in range(3))
    draining = cluster("a", 3, cordon=Cordon.DRAINING, max_moving=1)
    placement = schedule(Fleet((draining, cluster("b", 3)), there), deployment(3))
    assert [(each.replica, each.leaving, each.waits) for each in placement.assignments] == [
        ("r0", True, False),
        ("r1", False, True),
        ("r2", False, True),
        ("", False, False),
    ]
    assert placement.assignments[1].reason == (
        'InferenceCluster "a" is draining; the replica waits to move: 1 of at most 1 replicas of the '
        "cluster are already moving (spec.drain.maxMoving)"
    )


def test_moves_of_other_drains_count_over_the_fleet() -> None:
    other = (replica("o1", "c", "other"), replica("o2", "b", "other", ready=False))
    draining = cluster("a", cordon=Cordon.DRAINING, max_moving_in_fleet=1)
    clusters = (draining, cluster("b"), cluster("c", cordon=Cordon.DRAINING))
    placement = schedule(Fleet(clusters, (replica("r1", "a"), *other)), deployment())
    assert [(each.replica, each.waits) for each in placement.assignments] == [("r1", True)]
    assert "1 of at most 1 replicas of the fleet are already moving" in placement.assignments[0].reason


def test_a_move_that_has_begun_goes_on_although_the_limit_is_reached() -> None:
    other = (replica("o1", "a", "other"), replica("o2", "b", "other", ready=False))
    draining = cluster("a", 2, cordon=Cordon.DRAINING, max_moving=1)
    own = (replica("r1", "a"), replica("r2", "b", ready=False))
    placement = schedule(Fleet((draining, cluster("b")), (*own, *other)), deployment())
    assert [(each.replica, each.leaving) for each in placement.assignments] == [("r1", True), ("r2", False)]


def test_an_uncordon_keeps_what_serves_and_cancels_the_replacement() -> None:
    fleet = Fleet((cluster("a"), cluster("b")), (replica("r1", "a"), replica("r2", "b", ready=False)))
    placement = schedule(fleet, deployment())
    assert [each.replica for each in placement.assignments] == ["r1"]
    assert [each.replica for each in placement.dropped] == ["r2"]


def test_a_cordon_keeps_new_replicas_away_and_moves_nothing() -> None:
    fleet = Fleet((cluster("a", cordon=Cordon.CORDONED), cluster("b")), (replica("r1", "a"),))
    placement = schedule(fleet, deployment(2))
    assert [(each.cluster, each.leaving, each.waits) for each in placement.assignments] == [
        ("a", False, False),
        ("b", False, False),
    ]


def test_no_toleration_covers_a_cordon() -> None:
    tolerant = deployment(tolerations=(Toleration(operator=Operator.EXISTS),))
    placement = schedule(Fleet((cluster("a", cordon=Cordon.CORDONED),)), tolerant)
    [exclusion] = placement.diagnosis.excluded
    assert (exclusion.why.reason, exclusion.why.remedy) == (
        Reason.CORDONED,
        "uncordon the cluster: modelplane cluster uncordon a",
    )


def test_a_replica_that_is_not_ready_takes_no_turn_from_others() -> None:
    other = (replica("o1", "a", "other", ready=False), replica("o2", "b", "other", ready=False))
    draining = cluster("a", 2, cordon=Cordon.DRAINING, max_moving=1)
    placement = schedule(Fleet((draining, cluster("b")), (replica("r1", "a"), *other)), deployment())
    assert [(each.replica, each.leaving) for each in placement.assignments] == [("r1", True), ("", False)]


def test_every_replica_that_is_not_ready_moves_at_once() -> None:
    there = tuple(replica(f"r{at}", "a", index=at, ready=False) for at in range(3))
    draining = cluster("a", 3, cordon=Cordon.DRAINING, max_moving=1)
    placement = schedule(Fleet((draining, cluster("b", 3)), there), deployment(3))
    assert [each.leaving for each in placement.assignments] == [True, True, True, False, False, False]


def test_a_drain_does_not_wait_for_surge_replicas() -> None:
    there = (replica("r1", "a"), replica("r2", "b", behind=True))
    fleet = Fleet((DRAINING, cluster("b", nodes=1)), there)
    placement = schedule(fleet, deployment(), surge=Surge(1))
    assert [each.replica for each in placement.assignments] == ["r2"]
    assert [each.replica for each in placement.dropped] == ["r1"]
    assert placement.surge_problem


def test_a_surge_replica_does_not_begin_the_move_of_one_that_waits_for_its_turn() -> None:
    clusters = (replace(DRAINING, max_moving=1), cluster("b"), cluster("c"))
    other = (replica("o1", "a", "other"), replica("o2", "b", "other", ready=False))
    own = (replica("r1", "a", behind=True), replica("r2", "c", surge=True))
    placement = schedule(Fleet(clusters, (*other, *own)), deployment(), surge=Surge(1))
    assert [(each.replica, each.waits, each.surge) for each in placement.assignments] == [
        ("r1", True, False),
        ("r2", False, True),
    ]


@pytest.mark.parametrize(("surge", "moves"), [(False, 1), (True, 0)])
def test_a_surge_replica_that_starts_is_no_move(surge: bool, moves: int) -> None:
    replicas = (replica("r1", "a"), replica("r2", "b", ready=False, surge=surge))
    assert len(list_moving({"a": DRAINING, "b": cluster("b")}, replicas)) == moves


@pytest.mark.parametrize(
    ("created", "leaves"),
    [
        pytest.param("2026-01-01T11:00:00+00:00", True, id="it has been starting for too long"),
        pytest.param("2026-01-01T12:00:00+00:00", False, id="it has just begun"),
        pytest.param("", False, id="when it began is unknown"),
    ],
)
def test_a_replacement_that_is_stuck_holds_up_no_other_drain(created: str, leaves: bool) -> None:
    other = (replica("o1", "a", "other"), replace(replica("o2", "b", "other", ready=False), created=created))
    fleet = Fleet(
        (replace(DRAINING, max_moving=1), cluster("b"), cluster("c")),
        (*other, replica("r1", "a")),
        stuck_before="2026-01-01T11:30:00+00:00",
    )
    [own] = [each for each in schedule(fleet, deployment()).assignments if each.replica == "r1"]
    assert own.leaving is leaves


def test_of_replicas_that_leave_those_that_serve_stay_longest() -> None:
    replicas = (replica("r1", "a", surge=True), replica("r2", "a", ready=False, index=1))
    placement = schedule(Fleet((DRAINING,), replicas), deployment())
    assert [each.replica for each in placement.dropped] == ["r2"]


def test_a_replica_that_an_edit_restarts_withdraws_nothing() -> None:
    fleet = Fleet((DRAINING, cluster("b")), (replica("r1", "a"), replica("r2", "b", updating=True)))
    assert not schedule(fleet, deployment()).dropped
