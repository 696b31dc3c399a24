"""Priorities: the order in which deployments get devices, and which replicas leave for others."""

from collections import Counter
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from modelplane.api.fields.cluster.drain_settings import Cordon
from modelplane.scheduler import (
    Block,
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Limit,
    Member,
    PlacedEngine,
    PlacedMember,
    Placement,
    Pool,
    Priority,
    Quota,
    Replica,
    ResolvedRequest,
    Role,
    Surge,
    list_alternatives,
    schedule,
)
from modelplane.scheduler.preemption import _fits

CLAIM = (ResolvedRequest("gpu", "gpu", 1, ()),)
SERVING = Priority("serving", 1000, preempts=True)
BATCH = Priority("batch", -10)


def cluster(name: str = "west", nodes: int = 2, **fields: Any) -> Cluster:
    pool = Pool("p", nodes, (Device("gpu", "gpu", 1, device_class_name="gpu"),), class_name="h100")
    return replace(Cluster(name, gateway_address="192.0.2.1", pools=(pool,)), **fields)


def deployment(name: str, replicas: int = 1, copies: int = 1, **fields: Any) -> Deployment:
    engines = (Engine("main", copies, members=(Member(requests=(DeviceRequest("gpu"),)),)),)
    return replace(Deployment(name, name, name, replicas, engines, created=name), **fields)


def replica(of: str, index: int, where: str = "west", copies: int = 1, **fields: Any) -> Replica:
    placed = (PlacedEngine("main", copies, (PlacedMember(Role.STANDALONE, "p", 1, CLAIM),)),)
    name = f"{of}-{index}"
    return replace(Replica(of, name, of, of, where, index, placed, ready=True, created=f"t{index}"), **fields)


def quota(namespace: str, nominal: int = 100, **fields: Any) -> Quota:
    limits = (Limit("h100", nominal),)
    return replace(Quota(namespace, frozenset({namespace}), "cohort", limits=limits), **fields)


QUOTAS = tuple(map(quota, ("a", "b", "c")))


def view(own: Deployment, *others: Deployment, there: tuple[Replica, ...] = (), **fields: Any) -> Placement:
    known = {"clusters": (cluster(),), "quotas": QUOTAS, **fields}
    return schedule(Fleet(replicas=there, others=others, **known), own)


def new(placement: Placement) -> list[str]:
    return [each.cluster for each in placement.assignments if not each.retained]


def dropped(placement: Placement) -> list[str]:
    return [each.replica for each in placement.dropped]


def test_what_a_deployment_of_higher_priority_waits_for_is_not_given_away() -> None:
    high = deployment("a", 1, priority=Priority("serving", 1000))
    low = deployment("b", 2)
    placement = view(low, high)
    assert new(placement) == ["west"]
    assert placement.diagnosis.describe() == (
        "1 of 2 replicas placed; 1 cluster: 1 without enough free nodes (west: pool p has 0 of 2 nodes free, "
        '1 needed); to place one more, add 1 node to pool p of InferenceCluster "west"; 1 replica of a '
        "deployment of higher priority, or of equal priority and older, comes first"
    )
    assert len(new(view(high, low))) == 1


def test_a_place_that_another_deployment_gets_first_is_no_alternative() -> None:
    high, low = deployment("a", 1, priority=Priority("serving", 1000)), deployment("b", 1)
    fleet = Fleet((cluster("east", 1), cluster("west", 1)), (replica("b", 0, "west"),), quotas=QUOTAS)
    assert [each.cluster for each in list_alternatives(fleet, low).places] == ["east"]
    assert list_alternatives(replace(fleet, others=(high,)), low).places == ()


@pytest.mark.parametrize(
    ("first", "second", "given"),
    [
        pytest.param(Priority("x", 5), Priority("y", 9), 2, id="the value decides, not the age"),
        pytest.param(Priority("x", 5), Priority("x", 5), 1, id="the older of equal ones comes first"),
        pytest.param(Priority(), Priority("x", 5), 2, id="without a class the priority is 0"),
        pytest.param(Priority(), Priority("x", -5), 1, id="a priority below 0 comes after those without"),
        pytest.param(Priority(), Priority(), 2, id="those without a class are as they always were"),
        pytest.param(Priority("x", 9, problem="no"), Priority(), 2, id="one that is refused takes nothing"),
    ],
)
def test_the_order_is_that_of_value_and_then_age(first: Priority, second: Priority, given: int) -> None:
    older, newer = deployment("a", 1, priority=first), deployment("b", 2, priority=second)
    assert len(new(view(newer, older))) == given


def test_a_deployment_that_has_its_replicas_takes_no_more() -> None:
    high = deployment("a", 1, priority=SERVING)
    assert len(new(view(deployment("b", 2), high, there=(replica("a", 0, "elsewhere"),)))) == 2


def test_what_fits_nowhere_reserves_nothing() -> None:
    high = deployment("a", 1, copies=3, priority=Priority("serving", 1000))
    assert len(new(view(deployment("b", 2), high))) == 2


def test_a_scarce_quota_of_a_cohort_goes_by_priority_too() -> None:
    quotas = (quota("a", 1), quota("b", 0))
    high, low = deployment("a", 1, priority=SERVING), deployment("b", 1)
    assert new(view(low, high, quotas=quotas)) == []
    assert new(view(low, quotas=quotas)) == ["west"]


def test_a_priority_that_is_refused_keeps_what_is_there_and_adds_nothing() -> None:
    own = deployment("a", 2, priority=Priority("x", problem="no DeviceQuota allows it"))
    placement = view(own, there=(replica("a", 0),))
    assert [each.replica for each in placement.assignments] == ["a-0"]
    assert placement.diagnosis.block is Block.PRIORITY
    assert placement.diagnosis.describe() == "1 of 2 replicas placed; no DeviceQuota allows it"


HIGH = deployment("a", 1, priority=SERVING)
LOW = deployment("b", 2)
FULL = (replica("b", 0), replica("b", 1))


def test_the_newest_replica_of_lower_priority_leaves_and_both_sides_say_so() -> None:
    mine = view(HIGH, LOW, there=FULL)
    assert new(mine) == []
    assert [each.name for each in mine.displaces] == ["b-1"]
    assert "1 replica of lower priority leaves for the next replica: b/b-1" in mine.diagnosis.describe()
    theirs = view(LOW, HIGH, there=FULL)
    assert dropped(theirs) == ["b-1"]
    assert [each.replica for each in theirs.assignments] == ["b-0"]
    assert theirs.diagnosis.preempted
    assert (
        'replica "b-1" is being withdrawn: ModelDeployment "a/a" of priority 1000 (PriorityClass '
        '"serving") takes the replica\'s devices'
    ) in theirs.diagnosis.describe()


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param({"draining": True}, id="it was told to withdraw"),
        pytest.param({"draining": True, "ready": False}, id="it serves no longer"),
        pytest.param({"deleting": True, "deleted": "t9"}, id="being deleted"),
    ],
)
def test_the_same_replica_leaves_until_it_is_gone_and_no_other(stage: dict[str, Any]) -> None:
    there, clusters = (replace(FULL[0], **stage), FULL[1], replica("b", 2)), (cluster(nodes=3),)
    low = replace(LOW, replicas=3)
    mine = view(HIGH, low, there=there, clusters=clusters)
    assert new(mine) == []
    told = [] if "deleting" in stage else ["b-0"]
    assert [each.name for each in mine.displaces] == told, "it may have been withdrawn for another reason"
    theirs = view(low, HIGH, there=there, clusters=clusters)
    assert dropped(theirs) == ["b-0"]
    assert [each.replica for each in theirs.assignments] == ["b-1", "b-2"]


def test_a_replica_that_does_not_end_is_not_waited_for() -> None:
    stuck = replace(FULL[0], deleting=True, deleted="t1")
    more = replica("b", 2)
    there, clusters = (stuck, FULL[1], more), (cluster(nodes=3),)
    placement = view(HIGH, deployment("b", 3), there=there, clusters=clusters, stuck_before="t5")
    assert [each.name for each in placement.displaces] == ["b-2"]


def test_what_leaves_is_reserved_for_the_preemptor() -> None:
    after = (FULL[0],)
    assert new(view(LOW, HIGH, there=after)) == []
    assert new(view(deployment("c", 1), HIGH, LOW, there=after)) == []
    assert new(view(HIGH, LOW, there=after)) == ["west"]


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ((FULL[0],), "its last replica"),
        ((FULL[0], replace(FULL[1], ready=False, cluster="east")), "the last that serves"),
        (
            (FULL[0], replace(FULL[1], cluster="east", unreachable="silent")),
            "the last that is known to serve",
        ),
    ],
)
def test_the_last_serving_replica_stays(there: tuple[Replica, ...], why: str) -> None:
    clusters = (cluster(nodes=1), cluster("east", nodes=1, ready=False))
    assert view(HIGH, LOW, there=there, clusters=clusters).displaces == (), why
    assert dropped(view(LOW, HIGH, there=there, clusters=clusters)) == []


@pytest.mark.parametrize("stage", [{"ready": False}, {"unreachable": "silent"}])
def test_the_last_that_answers_stays_although_an_edit_will_restart_it(stage: dict[str, Any]) -> None:
    there = (replace(FULL[0], updating=True), replace(FULL[1], cluster="east", **stage))
    clusters = (cluster(nodes=1), cluster("east", nodes=1, ready=False))
    assert view(HIGH, LOW, there=there, clusters=clusters).displaces == ()
    assert dropped(view(LOW, HIGH, there=there, clusters=clusters)) == []


def test_of_two_that_an_edit_will_restart_one_leaves() -> None:
    there = tuple(replace(each, updating=True) for each in FULL)
    assert [each.name for each in view(HIGH, LOW, there=there).displaces] == ["b-1"]


def test_of_one_that_serves_and_one_that_an_edit_will_restart_the_latter_leaves() -> None:
    there = (replace(FULL[0], updating=True), FULL[1])
    assert [each.name for each in view(HIGH, LOW, there=there).displaces] == ["b-0"]


def test_one_that_does_not_serve_leaves_before_the_last_that_does() -> None:
    there = (FULL[0], replace(FULL[1], ready=False))
    assert [each.name for each in view(HIGH, LOW, there=there).displaces] == ["b-1"]


@pytest.mark.parametrize(
    ("own", "low"),
    [
        pytest.param(Priority("serving", 1000), Priority(), id="its quota does not let it"),
        pytest.param(SERVING, Priority("serving", 1000), id="the other's priority is equal"),
        pytest.param(SERVING, Priority("x", 2000), id="the other's priority is higher"),
        pytest.param(SERVING, Priority("x", problem="?"), id="the other's priority is not known"),
    ],
)
def test_none_leaves_for(own: Priority, low: Priority) -> None:
    high, other = replace(HIGH, priority=own), replace(LOW, priority=low)
    assert view(high, other, there=FULL).displaces == ()
    assert dropped(view(other, high, there=FULL)) == []


def test_none_leaves_outside_the_cohort() -> None:
    quotas = (quota("a"), replace(quota("b"), cohort="another"))
    assert view(HIGH, LOW, there=FULL, quotas=quotas).displaces == ()
    assert view(HIGH, LOW, there=FULL, quotas=(quota("a"),)).displaces == ()


def test_none_leaves_for_a_replica_that_would_have_to_borrow() -> None:
    quotas = (quota("a", 0), quota("b", 2))
    assert view(HIGH, LOW, there=FULL, quotas=quotas).displaces == ()


def test_borrowers_leave_first_then_the_lowest_priority() -> None:
    borrower, lowest = deployment("b", 2), deployment("c", 2, priority=BATCH)
    there = tuple(replica(of, at) for of in ("b", "c") for at in (0, 1))
    clusters = (cluster(nodes=4),)
    lends = (quota("a", 2), quota("b", 1), quota("c", 2))
    taken = view(HIGH, borrower, lowest, there=there, clusters=clusters, quotas=lends)
    assert [each.name for each in taken.displaces] == ["b-1"]
    taken = view(HIGH, borrower, lowest, there=there, clusters=clusters)
    assert [each.name for each in taken.displaces] == ["c-1"]


def test_a_lender_gets_its_quota_back_although_devices_are_free() -> None:
    quotas = (quota("a", 1), quota("b", 1))
    mine = view(HIGH, LOW, there=FULL, clusters=(cluster(nodes=9),), quotas=quotas)
    assert (new(mine), [each.name for each in mine.displaces]) == ([], ["b-1"])


def test_no_more_leave_than_are_needed() -> None:
    wide = replica("c", 0, copies=2, created="t5")
    more = replica("c", 1, "east", copies=2)
    small = tuple(replica("b", at, created="t9") for at in range(3))
    clusters = (cluster(nodes=5), cluster("east", nodes=2))
    own = deployment("a", 1, copies=2, priority=SERVING)
    others = (deployment("b", 3), deployment("c", 2, copies=2))
    placement = view(own, *others, there=(wide, more, *small), clusters=clusters)
    assert len(placement.displaces) == 1


def test_none_leaves_for_a_surge_replica() -> None:
    there = (replace(replica("a", 0), behind=True), replica("b", 0), replica("b", 1))
    fleet = Fleet((cluster(nodes=3),), there, quotas=QUOTAS, others=(LOW,))
    surged = schedule(fleet, HIGH, surge=Surge(1))
    assert (new(surged), surged.displaces) == ([], ())


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(cluster("east", 1, cordon=Cordon.DRAINING), id="draining"),
        pytest.param(cluster("east", 1, lost="it is lost", ready=False), id="lost"),
    ],
)
def test_none_is_said_to_leave_for_the_replacement_of_a_replica_that_is_there(where: Cluster) -> None:
    own = replace(HIGH, failover=True)
    there = (replica("a", 0, "east"), *FULL)
    mine = view(own, LOW, there=there, clusters=(where, cluster()))
    theirs = view(LOW, own, there=there, clusters=(where, cluster()))
    assert (new(mine), dropped(theirs), mine.displaces) == ([], [], ())
    assert "lower priority" not in mine.diagnosis.describe()


def test_each_deployment_displaces_for_one_replica_at_a_time() -> None:
    there = tuple(replica("b", at) for at in range(4))
    own = replace(HIGH, replicas=3)
    placement = view(own, deployment("b", 4), there=there, clusters=(cluster(nodes=4),))
    assert [each.name for each in placement.displaces] == ["b-3"]


def test_two_preemptors_do_not_count_on_the_same_replica() -> None:
    there = tuple(replica("b", at) for at in range(4))
    low, second = deployment("b", 4), deployment("c", 1, priority=SERVING)
    clusters = (cluster(nodes=4),)
    first = view(HIGH, low, second, there=there, clusters=clusters)
    later = view(second, low, HIGH, there=there, clusters=clusters)
    theirs = view(low, HIGH, second, there=there, clusters=clusters)
    assert sorted(each.name for each in (*first.displaces, *later.displaces)) == ["b-2", "b-3"]
    assert dropped(theirs) == ["b-2", "b-3"]


def test_the_order_of_the_input_decides_nothing() -> None:
    there = tuple(replica("b", at) for at in range(2))
    results = {
        repr(view(HIGH, *others, there=order))
        for others in permutations((LOW, deployment("c", 1, priority=BATCH)))
        for order in permutations(there)
    }
    assert len(results) == 1


def test_an_error_while_replicas_are_off_the_ledgers_puts_them_back() -> None:
    balance: Counter[str] = Counter()
    state: Any = SimpleNamespace(
        ledger=SimpleNamespace(
            refund=lambda *_: balance.update(capacity=-1), charge=lambda *_: balance.update(capacity=1)
        ),
        quotas=SimpleNamespace(release=lambda _gone, sign=-1: balance.update(quota=sign)),
        find_offer=lambda _cluster: 1 // 0,
    )
    with pytest.raises(ZeroDivisionError):
        _fits(state, cluster(), [replica("a", 0)])
    assert balance == {"capacity": 0, "quota": 0}, "later deployments would count on what is taken"
