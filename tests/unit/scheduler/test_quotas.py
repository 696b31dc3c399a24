"""Quotas: what is refused, with which numbers, and what is never taken away."""

from typing import Any

import pytest
from msgspec.structs import replace

from modelplane.api.fields.cluster.drain_settings import Cordon
from modelplane.scheduler import (
    Accounting,
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
    Quota,
    Reason,
    Replica,
    ResolvedRequest,
    Role,
    Surge,
    list_alternatives,
    schedule,
    sum_quota_usage,
)

CLAIM = (ResolvedRequest("gpu", "gpu", 1, ()),)


def cluster(name: str = "west", nodes: int = 8, class_name: str = "h100", **fields: Any) -> Cluster:
    """Nodes of four GPUs, each taken whole."""
    pool = Pool("p", nodes, (Device("gpu", "gpu", 4, device_class_name="gpu"),), class_name=class_name)
    return replace(Cluster(name, gateway_address="192.0.2.1", pools=(pool,)), **fields)


def deployment(replicas: int = 1, namespace: str = "ml-team", **fields: Any) -> Deployment:
    engines = (Engine("main", members=(Member(requests=(DeviceRequest("gpu"),)),)),)
    return replace(Deployment(namespace, "qwen", f"{namespace}-own", replicas, engines), **fields)


def replica(name: str, where: str = "west", namespace: str = "ml-team", **fields: Any) -> Replica:
    placed = (PlacedEngine("main", 1, (PlacedMember(Role.STANDALONE, "p", 1, CLAIM),)),)
    uid = f"{namespace}-own"
    return replace(Replica(namespace, name, uid, "qwen", where, int(name[1:]), placed, ready=True), **fields)


def quota(nominal: int, namespace: str = "ml-team", **fields: Any) -> Quota:
    limit = {key: fields.pop(key) for key in ("borrowing", "lending") if key in fields}
    limits = (Limit("h100", nominal, **limit),)
    return replace(Quota(f"of-{namespace}", frozenset({namespace}), limits=limits), **fields)


def new(placement: Placement) -> int:
    return sum(not each.retained for each in placement.assignments)


def refused(placement: Placement) -> set[tuple[str, str]]:
    return {(each.why.reason, each.why.detail) for each in placement.diagnosis.excluded}


def test_a_replica_above_the_quota_is_refused_with_the_numbers_and_the_remedy() -> None:
    fleet = Fleet((cluster(),), (replica("r0"),), quotas=(quota(6),))
    placement = schedule(fleet, deployment(2))
    assert new(placement) == 0
    assert placement.diagnosis.describe() == (
        '1 of 2 replicas placed; 1 cluster: 1 above DeviceQuota "of-ml-team" (west: namespace ml-team uses 4 '
        "of 6 gpu devices of class h100 and can borrow 0; this replica needs 4); to place one more, raise "
        'nominalQuota of class h100 in DeviceQuota "of-ml-team" to 8'
    )


def test_replicas_within_the_quota_are_placed_and_no_more() -> None:
    assert new(schedule(Fleet((cluster(),), quotas=(quota(11),)), deployment(5))) == 2


@pytest.mark.parametrize(
    "quotas",
    [
        pytest.param((), id="there is no quota"),
        pytest.param((quota(0, "other"),), id="it binds another namespace"),
        pytest.param((replace(quota(0), limits=(Limit("l4", 0),)),), id="it limits another class"),
        pytest.param((replace(quota(0), limits=(Limit("h100", 0, "nic"),)),), id="it limits another device"),
        pytest.param((replace(quota(0), limits=()),), id="it has no limits"),
    ],
)
def test_what_no_quota_limits_is_not_limited(quotas: tuple[Quota, ...]) -> None:
    assert new(schedule(Fleet((cluster(),), quotas=quotas), deployment(5))) == 5


def test_a_pool_that_counts_devices_charges_claims() -> None:
    shared = cluster(
        pools=(
            Pool(
                "p",
                8,
                (Device("gpu", "gpu", 4, device_class_name="gpu"),),
                accounting=Accounting.DEVICES,
                class_name="h100",
            ),
        )
    )
    assert new(schedule(Fleet((shared,), quotas=(quota(3),)), deployment(5))) == 3


def test_a_class_that_is_not_limited_takes_what_the_limited_one_may_not() -> None:
    fleet = Fleet((cluster(), cluster("east", class_name="l4")), quotas=(quota(4),))
    placement = schedule(fleet, deployment(4))
    assert sorted(each.cluster for each in placement.assignments) == ["east", "east", "east", "west"]


def test_a_quota_that_was_lowered_removes_nothing() -> None:
    fleet = Fleet((cluster(),), (replica("r0"), replica("r1")), quotas=(quota(0),))
    placement = schedule(fleet, deployment(2))
    assert placement.dropped == ()
    assert [each.leaving for each in placement.assignments] == [False, False]
    assert placement.diagnosis.describe() == ""


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"deleting": True}, id="one that is being deleted"),
        pytest.param({"cluster": "lost"}, id="one on a lost cluster"),
        pytest.param({"surge": True}, id="a surge replica"),
        pytest.param({"deployment_uid": "another"}, id="one of another deployment"),
    ],
)
def test_a_replica_counts_until_it_is_gone(fields: dict[str, Any]) -> None:
    clusters = (cluster(), cluster("lost", lost="it does not answer", ready=False))
    fleet = Fleet(clusters, (replace(replica("r0"), **fields),), quotas=(quota(4),))
    placement = schedule(fleet, deployment(2, failover=True))
    assert new(placement) == 0
    assert Reason.OVER_QUOTA in {reason for reason, _ in refused(placement)}


def test_a_drain_needs_quota_for_the_replacement_and_moves_nothing_without() -> None:
    fleet = Fleet(
        (cluster("west", cordon=Cordon.DRAINING), cluster("east")), (replica("r0"),), quotas=(quota(4),)
    )
    placement = schedule(fleet, deployment(1))
    assert [(each.replica, each.leaving) for each in placement.assignments] == [("r0", True)]
    assert Reason.OVER_QUOTA in {reason for reason, _ in refused(placement)}


def test_surge_replicas_need_quota() -> None:
    fleet = Fleet((cluster(),), (replace(replica("r0"), behind=True),), quotas=(quota(4),))
    surged = schedule(fleet, deployment(1), surge=Surge(1))
    assert new(surged) == 0
    assert "above DeviceQuota" in surged.surge_problem


def test_an_edit_that_needs_more_than_the_quota_leaves_the_replica_as_it_is() -> None:
    larger = replace(deployment(1), engines=(replace(deployment().engines[0], copies=2),))
    placement = schedule(Fleet((cluster(),), (replica("r0"),), quotas=(quota(6),)), larger)
    assert [(each.replica, each.leaving, each.engines[0].copies) for each in placement.assignments] == [
        ("r0", True, 1)
    ]
    assert "the edit needs more devices: namespace ml-team uses 4 of 6" in placement.assignments[0].reason


def test_a_namespace_in_two_quotas_gets_nothing_new_and_loses_nothing() -> None:
    fleet = Fleet((cluster(),), (replica("r0"),), quotas=(quota(40), quota(80, name="other")))
    placement = schedule(fleet, deployment(2))
    assert [each.replica for each in placement.assignments] == ["r0"]
    assert placement.diagnosis.block is Block.QUOTA
    assert placement.diagnosis.describe() == (
        '1 of 2 replicas placed; namespace ml-team is listed in DeviceQuotas "of-ml-team" and "other", so '
        "its limit is ambiguous: remove the namespace from all but one"
    )


@pytest.mark.parametrize("namespaces", [None, frozenset({"ml-team"})])
def test_a_quota_that_cannot_be_read_refuses_those_that_it_might_bind(
    namespaces: frozenset[str] | None,
) -> None:
    broken = Quota("broken", namespaces, problem="cannot read DeviceQuota")
    fleet = Fleet((cluster(),), (replica("r0"),), quotas=(broken,))
    assert [each.replica for each in schedule(fleet, deployment(2)).assignments] == ["r0"]
    assert new(schedule(fleet, deployment(1, "another"))) == (0 if namespaces is None else 1)


def test_what_a_replica_holds_on_a_cluster_in_trouble_is_not_taken_for_nothing() -> None:
    silent = cluster("silent", ready=False, pools=())
    fleet = Fleet((cluster(), silent), (replica("r0", "silent"),), quotas=(quota(40),))
    placement = schedule(fleet, deployment(2))
    assert new(placement) == 0
    assert (
        Reason.OVER_QUOTA,
        (
            'the devices of replica "ml-team/r0" are unknown until InferenceCluster "silent" is ready and '
            "publishes pool p"
        ),
    ) in refused(placement)


def test_a_remedy_of_capacity_is_not_proposed_where_the_quota_refuses() -> None:
    fleet = Fleet((cluster(nodes=1),), (replica("r0"),), quotas=(quota(4),))
    assert schedule(fleet, deployment(2)).diagnosis.remedies == ()


def test_an_alternative_is_within_the_quota() -> None:
    fleet = Fleet((cluster(), cluster("east", class_name="l4")), (replica("r0"),), quotas=(quota(4),))
    assert [each.cluster for each in list_alternatives(fleet, deployment(1)).places] == ["east"]


def both(of_team: Quota, of_other: Quota) -> tuple[Quota, ...]:
    return replace(of_team, cohort="research"), replace(of_other, cohort="research")


OTHER = "other"


@pytest.mark.parametrize(
    ("quotas", "used_by_other", "placed"),
    [
        pytest.param(both(quota(4), quota(8, OTHER)), 0, 3, id="all that the other does not use"),
        pytest.param(both(quota(4), quota(8, OTHER)), 1, 2, id="less what the other uses"),
        pytest.param(both(quota(4, borrowing=4), quota(8, OTHER)), 0, 2, id="as much as it may borrow"),
        pytest.param(both(quota(4, borrowing=0), quota(8, OTHER)), 0, 1, id="nothing if it may not borrow"),
        pytest.param(both(quota(4), quota(8, OTHER, lending=4)), 0, 2, id="as much as the other lends"),
        pytest.param(both(quota(4), quota(8, OTHER, lending=4)), 1, 2, id="what it keeps is used first"),
        pytest.param(both(quota(4), quota(4, OTHER)), 3, 0, id="what the other has borrowed is gone"),
        pytest.param(both(quota(4, lending=0), quota(4, OTHER)), 3, 1, id="what it does not lend is its own"),
    ],
)
def test_a_cohort_lends_and_borrows_as_kueue_does(
    quotas: tuple[Quota, ...], used_by_other: int, placed: int
) -> None:
    there = tuple(replica(f"r{at}", namespace=OTHER) for at in range(used_by_other))
    assert new(schedule(Fleet((cluster(),), there, quotas=quotas), deployment(6))) == placed


def test_a_quota_without_a_cohort_borrows_from_none() -> None:
    fleet = Fleet((cluster(),), quotas=(quota(4), quota(40, OTHER)))
    assert new(schedule(fleet, deployment(6))) == 1


def test_the_use_of_a_quota_is_what_its_namespaces_hold() -> None:
    fleet = Fleet((cluster(nodes=2),), (replica("r0"), replica("r1", namespace=OTHER)))
    uses = sum_quota_usage(fleet, quota(3, cohort="research"))
    assert [(each.class_name, each.device, each.used, each.borrowed, each.capacity) for each in uses] == [
        ("h100", "gpu", 4, 1, 8)
    ]
