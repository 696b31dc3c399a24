"""Evictions: replicas on nodes that are taken back leave at once, and the last one that serves stays."""

from typing import Any

import pytest
from msgspec.structs import replace

from modelplane.scheduler import (
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    PlacedEngine,
    PlacedMember,
    Pool,
    Replica,
    ResolvedRequest,
    Role,
    schedule,
)

GPU = (DeviceRequest("gpu"),)
CLAIM = (ResolvedRequest("gpu", "gpu", 1, ()),)
SOON, LATER, NOW = "2026-01-01T00:00:30", "2026-01-01T00:10:00", "2026-01-01T00:01:00"
"""Deadlines before and after the time up to which replicas are withdrawn."""


def cluster(name: str, nodes: int = 3, **fields: Any) -> Cluster:
    pool = Pool("p", nodes, (Device("gpu", "gpu", 1, device_class_name="gpu"),))
    return replace(Cluster(name, gateway_address="192.0.2.1", pools=(pool,)), **fields)


def deployment(replicas: int = 1, **fields: Any) -> Deployment:
    engines = (Engine("main", members=(Member(requests=GPU),)),)
    return replace(Deployment("ml", "qwen", "own", replicas, engines), **fields)


def replica(name: str, where: str, index: int = 0, **fields: Any) -> Replica:
    placed = (PlacedEngine("main", 1, (PlacedMember(Role.STANDALONE, "p", 1, CLAIM),)),)
    return replace(Replica("ml", name, "own", "own", where, index, placed, ready=True), **fields)


def evicted(name: str, where: str, at: str = LATER, index: int = 0, **fields: Any) -> Replica:
    return replica(name, where, index, evicted="node n1 is taken back", evicted_at=at, **fields)


def outcome(*replicas: Replica, wanted: Deployment | None = None, **fields: Any) -> tuple[list[str], int]:
    """Return the replicas that are withdrawn, and the number of new ones."""
    fleet = Fleet((cluster("a"), cluster("b", **fields)), replicas, evicted_before=NOW)
    placement = schedule(fleet, wanted or deployment(len(replicas)))
    new = [each for each in placement.assignments if not each.replica]
    return [each.replica for each in placement.dropped], len(new)


def test_a_replacement_is_asked_for_at_once_and_the_replica_serves_until_then() -> None:
    assert outcome(evicted("r1", "a")) == ([], 1)
    starting = replica("r2", "b", ready=False)
    assert outcome(evicted("r1", "a"), starting, wanted=deployment()) == ([], 0)
    serving = replica("r2", "b")
    assert outcome(evicted("r1", "a"), serving, wanted=deployment()) == (["r1"], 0)


def test_all_of_them_move_at_once() -> None:
    assert outcome(evicted("r1", "a"), evicted("r2", "a", index=1), replica("r3", "b")) == ([], 2)


def test_it_is_withdrawn_before_the_deadline_if_another_serves() -> None:
    assert outcome(evicted("r1", "a", SOON), replica("r2", "b")) == (["r1"], 1)
    assert outcome(evicted("r1", "a", LATER), replica("r2", "b")) == ([], 1)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replica("r2", "b", ready=False), id="the other one starts"),
        pytest.param(replica("r2", "b", draining=True), id="the other one is withdrawn"),
        pytest.param(replica("r2", "b", unreachable="no answer"), id="the other one is not seen"),
        pytest.param(evicted("r2", "b", SOON), id="both are taken back"),
    ],
)
def test_the_last_one_that_serves_stays_until_its_node_is_gone(other: Replica) -> None:
    assert outcome(evicted("r1", "a", SOON), other)[0] == []


def test_it_is_not_withdrawn_without_a_clock() -> None:
    fleet = Fleet((cluster("a"), cluster("b")), (evicted("r1", "a", SOON), replica("r2", "b")))
    assert schedule(fleet, deployment(2)).dropped == ()


def test_one_that_failover_cannot_see_is_not_withdrawn() -> None:
    doubted = cluster("a", doubt="no answer")
    there = (evicted("r1", "a", SOON), replica("r2", "b"))
    fleet = Fleet((doubted, cluster("b")), there, evicted_before=NOW)
    assert schedule(fleet, deployment(2, failover=True)).dropped == ()
    assert [each.replica for each in schedule(fleet, deployment(2)).dropped] == ["r1"]


def test_the_diagnosis_says_why_it_leaves() -> None:
    full = Fleet((cluster("a", 1),), (evicted("r1", "a"),))
    sentence = schedule(full, deployment()).diagnosis.describe()
    assert 'replica "r1" is kept until a replacement is ready: node n1 is taken back' in sentence
