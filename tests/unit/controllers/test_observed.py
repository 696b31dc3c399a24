"""What is read from the objects."""

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from modelplane import scheduler
from modelplane.compose.deployment import scheduler_input
from modelplane.controllers import state_samples
from modelplane.controllers.state_samples import ControllersState, Queue
from support.telemetry import cluster, deployment, device, item, pool, ready, replica

EMPTY: dict[str, Any] = {}


def told(metric: str, **objects: list[dict[str, Any]]) -> dict[tuple[str, ...], float]:
    """Return the samples of one metric that objects give, by their labels."""
    samples = state_samples.samples(ControllersState({}, {}, objects))
    return {sample.labels: sample.value for sample in samples if sample.metric.name == metric}


def hardware(metric: str, clusters: list[Any], replicas: list[Any]) -> dict[tuple[str, ...], float]:
    return told(metric, InferenceCluster=clusters, ModelReplica=replicas)


def test_queues_and_clusters_are_told_as_they_are() -> None:
    expires = datetime(2027, 1, 1, tzinfo=UTC)
    state = ControllersState(
        {"work": Queue(3, 1)},
        {"east": True, "west": False},
        {},
        {"models-tls": expires},
        {"west": "Lost"},
        failover_paused=False,
    )
    assert {(each.metric.name, each.labels): each.value for each in state_samples.samples(state)} == {
        ("modelplane_queue_depth", ("work",)): 3,
        ("modelplane_queue_running", ("work",)): 1,
        ("modelplane_cluster_reachable", ("east",)): 1,
        ("modelplane_cluster_reachable", ("west",)): 0,
        ("modelplane_cluster_state", ("west", "Lost")): 1,
        ("modelplane_failover_paused", ()): 0,
        ("modelplane_certificate_expiry_timestamp_seconds", ("models-tls",)): 1_798_761_600,
    }


def test_objects_are_counted_by_whether_they_are_ready() -> None:
    services = [
        item("ModelService", "a", ready("True")),
        item("ModelService", "b", ready("True")),
        item("ModelService", "c", ready("False")),
        item("ModelService", "d"),
    ]
    assert told("modelplane_objects", ModelService=services, ModelCache=[]) == {
        ("ModelService", "true"): 2,
        ("ModelService", "false"): 1,
        ("ModelService", "unknown"): 1,
        ("ModelCache", "true"): 0,
        ("ModelCache", "false"): 0,
        ("ModelCache", "unknown"): 0,
    }


def test_the_replicas_of_a_deployment_are_those_of_its_spec_and_status() -> None:
    found = [deployment("qwen", 5, total=4, ready=2, updated=3), deployment("new", 2)]
    assert told("modelplane_replicas", ModelDeployment=found) == {
        ("ml-team", "qwen", "desired"): 5,
        ("ml-team", "qwen", "placed"): 4,
        ("ml-team", "qwen", "ready"): 2,
        ("ml-team", "qwen", "updated"): 3,
        ("ml-team", "new", "desired"): 2,
        ("ml-team", "new", "placed"): 0,
        ("ml-team", "new", "ready"): 0,
        ("ml-team", "new", "updated"): 0,
    }


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            deployment("qwen", 5, ready("False", "InsufficientCapacity", "ReplicasScheduled"), total=2),
            {("ml-team", "qwen", "InsufficientCapacity"): 3},
            id="with the reason of the condition",
        ),
        pytest.param(
            deployment("qwen", 5),
            {("ml-team", "qwen", "Unknown"): 5},
            id="unknown before there is a condition",
        ),
        pytest.param(
            deployment("qwen", 2, ready("True", "ReplicasCreated", "ReplicasScheduled"), total=2),
            {},
            id="absent where every replica has a place",
        ),
        pytest.param(deployment("qwen", 1, total=3), {}, id="absent where more are there than are wanted"),
    ],
)
def test_replicas_without_a_place_are_told(found: Any, expected: Any) -> None:
    assert told("modelplane_unschedulable_replicas", ModelDeployment=[found]) == expected


def test_where_nodes_are_counted_all_devices_of_a_used_node_are_used() -> None:
    clusters = [cluster("east", pool("h200", 4, device("gpu", 8), device("nic", 2)))]
    replicas = [replica("a", "east", "h200", copies=3)]
    assert hardware("modelplane_nodes", clusters, replicas) == {
        ("east", "h200", "total"): 4,
        ("east", "h200", "used"): 3,
        ("east", "h200", "free"): 1,
    }
    assert hardware("modelplane_devices", clusters, replicas) == {
        ("east", "h200", "gpu", "total"): 32,
        ("east", "h200", "gpu", "used"): 24,
        ("east", "h200", "gpu", "free"): 8,
        ("east", "h200", "nic", "total"): 8,
        ("east", "h200", "nic", "used"): 6,
        ("east", "h200", "nic", "free"): 2,
    }


def test_where_devices_are_counted_only_those_claimed_are_used() -> None:
    clusters = [cluster("east", pool("h200", 2, accounting="Devices"))]
    replicas = [replica("a", "east", "h200", count=3, copies=2)]
    assert hardware("modelplane_nodes", clusters, replicas) == {}
    assert hardware("modelplane_devices", clusters, replicas) == {
        ("east", "h200", "gpu", "total"): 16,
        ("east", "h200", "gpu", "used"): 6,
        ("east", "h200", "gpu", "free"): 10,
    }


def test_where_more_is_used_than_there_is_nothing_is_free() -> None:
    clusters = [cluster("east", pool("h200", 1))]
    replicas = [replica("a", "east", "h200", copies=2)]
    assert hardware("modelplane_nodes", clusters, replicas) == {
        ("east", "h200", "total"): 1,
        ("east", "h200", "used"): 2,
        ("east", "h200", "free"): 0,
    }


def test_a_replica_that_cannot_be_read_leaves_open_what_is_free() -> None:
    clusters = [cluster("east", pool("h200", 1))]
    replicas = [replica("a", "east", "h200"), item("ModelReplica", "b", spec={"clusterName": 3})]
    assert hardware("modelplane_unreadable_replicas", clusters, replicas) == {(): 1}
    assert hardware("modelplane_nodes", clusters, replicas) == {}
    assert hardware("modelplane_devices", clusters, replicas) == {}


def test_before_both_kinds_are_read_nothing_is_said_of_what_is_free() -> None:
    clusters = [cluster("east", pool("h200", 1))]
    assert told("modelplane_nodes", InferenceCluster=clusters) == {}
    assert told("modelplane_unreadable_replicas", InferenceCluster=clusters) == {}


def test_the_figures_of_a_fleet_are_those_of_the_scheduler() -> None:
    accountings = itertools.cycle(("Nodes", "Devices"))
    clusters = [
        cluster(f"c{number}", *(pool(f"p{at}", 2 + at, accounting=next(accountings)) for at in range(3)))
        for number in range(20)
    ]
    replicas = [
        replica(
            f"r{number}", f"c{number % 17}", f"p{number % 3}", count=1 + number % 8, copies=1 + number % 2
        )
        for number in range(40)
    ]
    known = scheduler.Fleet(
        tuple(map(scheduler_input.read_cluster, clusters)), tuple(map(scheduler_input.read_replica, replicas))
    )
    expected = {
        (usage.cluster, usage.pool, amount.name, state): value
        for usage in scheduler.sum_usage(known)
        for amount in usage.amounts
        for state, value in (("total", amount.total), ("used", amount.taken), ("free", amount.free))
    }
    nodes = hardware("modelplane_nodes", clusters, replicas)
    devices = hardware("modelplane_devices", clusters, replicas)
    counted = {(*labels[:2], "nodes", labels[2]): value for labels, value in nodes.items()}
    pools = {labels[:2] for labels in nodes}
    counted |= {labels: value for labels, value in devices.items() if labels[:2] not in pools}
    assert counted == expected
    assert 0 < len(pools) < 60, "pools of both kinds"


def test_quotas_are_told_with_who_waits_for_them() -> None:
    quota = item(
        "DeviceQuota",
        "blue",
        spec={
            "namespaces": ["ml-team", "idle"],
            "classes": [
                {"className": "h100", "nominalQuota": 8},
                {"className": "l4", "deviceName": "nic", "nominalQuota": 2},
                {"className": "new", "nominalQuota": 4},
            ],
        },
        status={
            "classes": [
                {"className": "h100", "deviceName": "gpu", "used": 10, "borrowed": 2, "capacity": 16},
                {"className": "l4", "deviceName": "nic", "used": 1, "borrowed": 0, "capacity": 4},
                {"className": "old", "deviceName": "gpu", "used": 3, "borrowed": 3, "capacity": 4},
            ]
        },
    )
    deployments = [
        deployment("a", 4, ready("False", "QuotaExceeded", "ReplicasScheduled"), total=1),
        deployment("b", 2, ready("False", "Unreadable", "ReplicasScheduled")),
        deployment("c", 5, ready("False", "InsufficientCapacity", "ReplicasScheduled")),
    ]
    objects = {"DeviceQuota": [quota], "ModelDeployment": deployments}
    assert told("modelplane_quota_devices", **objects) == {
        ("blue", "h100", "gpu", "nominal"): 8,
        ("blue", "h100", "gpu", "used"): 10,
        ("blue", "h100", "gpu", "borrowed"): 2,
        ("blue", "l4", "nic", "nominal"): 2,
        ("blue", "l4", "nic", "used"): 1,
        ("blue", "l4", "nic", "borrowed"): 0,
        ("blue", "old", "gpu", "used"): 3,
        ("blue", "old", "gpu", "borrowed"): 3,
    }
    assert told("modelplane_quota_waiting_replicas", **objects) == {
        ("blue", "ml-team"): 5,
        ("blue", "idle"): 0,
    }


def test_unhealthy_devices_are_counted_by_replica() -> None:
    ill = replica("x", "east", "a")
    ill["status"] = {"unhealthyDevices": [{"pod": "p", "device": "1"}, {"pod": "p", "device": "2"}]}
    found = hardware("modelplane_unhealthy_devices", [], [ill, replica("y", "east", "a")])
    assert found == {(ill["metadata"]["namespace"], "x", "east"): 2}


def test_what_is_lost_of_a_pool_is_told_by_cause_and_not_by_whose_it_is() -> None:
    lost = [
        {"reason": "HeldByOthers", "name": "gpu", "count": 1, "detail": "batch/x"},
        {"reason": "HeldByOthers", "name": "gpu", "count": 2, "detail": "batch/y"},
        {"reason": "NodeNotReady", "name": "nodes", "count": 1},
    ]
    seen = pool("a", 3, accounting="Devices")
    missing = [{"nodes": 1, "devices": [{"name": "gpu", "count": 3}]}]
    seen["usable"] = {"nodes": 2, "missing": missing, "terms": lost}
    east = cluster("east", seen)
    east["status"]["conditions"] += [
        ready("False", "Unreadable", "CapacityObserved"),
        ready("True", "Overcommitted", "CapacityOvercommitted"),
    ]
    declared = cluster("west", pool("b", 1))
    assert hardware("modelplane_capacity_lost", [east, declared], []) == {
        ("east", "a", "gpu", "HeldByOthers"): 3,
        ("east", "a", "nodes", "NodeNotReady"): 1,
    }
    assert hardware("modelplane_capacity_problem", [east, declared], []) == {
        ("east", "stale"): 1,
        ("east", "overcommitted"): 1,
        ("east", "drifted"): 0,
    }
    assert hardware("modelplane_devices", [east], []) == {
        ("east", "a", "gpu", "total"): 24,
        ("east", "a", "gpu", "usable"): 13,
        ("east", "a", "gpu", "used"): 0,
        ("east", "a", "gpu", "free"): 13,
    }


def test_a_canary_that_was_aborted_or_waits_is_told_with_its_reason() -> None:
    def rolling(name: str, reason: str) -> dict[str, Any]:
        said = {"type": "Progressing", "status": "False", "reason": reason, "message": ""}
        return deployment(name, 2, said)

    reasons = {"a": "CanaryAborted", "b": "CanaryHolds", "c": "CanaryRunning", "d": "Paused"}
    found = [rolling(name, reason) for name, reason in reasons.items()]
    assert {labels[1:] for labels in told("modelplane_canary_stopped", ModelDeployment=found)} == {
        ("a", "CanaryAborted"),
        ("b", "CanaryHolds"),
    }
