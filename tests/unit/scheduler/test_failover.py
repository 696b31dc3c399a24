"""Replicas of a deployment with failover while clusters are lost, in doubt, or come back."""

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

ENGINES = (Engine("main", members=(Member(requests=(DeviceRequest("gpu"),)),)),)
CLAIM = ResolvedRequest("gpu", "gpu", 1, ())
PLACED = (PlacedEngine("main", 1, (PlacedMember(Role.STANDALONE, "l4", 1, (CLAIM,)),)),)
LOST: dict[str, Any] = {"ready": False, "not_ready": "silent", "lost": "it is lost", "doubt": "silent"}
DOUBT: dict[str, Any] = {"ready": False, "not_ready": "silent", "doubt": "silent"}
RETURNING: dict[str, Any] = {"ready": False, "not_ready": "not trusted yet", "returning": True}


def clusters(**states: dict[str, Any]) -> tuple[Cluster, ...]:
    """Return the clusters a, b and c with two nodes each."""
    pool = Pool("l4", 2, (Device("gpu", "gpu.example.com", 1, device_class_name="gpu"),))
    well = (Cluster(name, gateway_address="192.0.2.1", pools=(pool,)) for name in "abc")
    return tuple(replace(each, **states.get(each.name, {})) for each in well)


def on(name: str, cluster: str, *marks: str) -> Replica:
    silent = "silent" if "silent" in marks else ""
    return Replica("ml", name, "uid", "qwen", cluster, 0, PLACED, ready="ready" in marks, unreachable=silent)


def placed(
    replicas: int, there: tuple[Replica, ...], *, failover: bool = True, **states: dict[str, Any]
) -> list[str]:
    """Return the replicas after a placement; a new one is named for its cluster."""
    wanted = Deployment("ml", "qwen", "uid", replicas, ENGINES, failover=failover)
    found = schedule(Fleet(clusters(**states), there), wanted).assignments
    return [(each.replica or f"new@{each.cluster}") + (" leaving" if each.leaving else "") for each in found]


@pytest.mark.parametrize(
    ("replicas", "there", "states", "expected"),
    [
        pytest.param(
            1, (on("x", "a", "ready", "silent"),), {"a": LOST}, ["x leaving", "new@b"], id="elsewhere first"
        ),
        pytest.param(
            1,
            (on("x", "a", "ready", "silent"), on("y", "b", "ready")),
            {"a": LOST},
            ["x leaving", "y"],
            id="the original stays although the replacement serves",
        ),
        pytest.param(
            1, (on("x", "a", "ready", "silent"),), {"a": DOUBT}, ["x"], id="a doubt replaces nothing"
        ),
        pytest.param(
            1,
            (on("x", "a", "ready", "silent"), on("y", "b", "ready")),
            {"a": DOUBT},
            ["x", "y"],
            id="watched anew, both stay",
        ),
        pytest.param(
            1,
            (on("x", "a", "ready"), on("y", "b", "ready")),
            {"a": RETURNING},
            ["y"],
            id="both serve, so that of the cluster which was lost goes",
        ),
        pytest.param(
            1,
            (on("x", "a", "ready"), on("y", "b")),
            {"a": RETURNING},
            ["x"],
            id="the replacement does not serve yet, so it goes",
        ),
        pytest.param(
            1, (on("x", "a"), on("y", "b")), {"a": RETURNING}, ["x", "y"], id="neither serves, so both stay"
        ),
        pytest.param(
            2,
            (on("v", "a", "ready"), on("x", "a", "ready"), on("y", "b", "ready"), on("z", "b")),
            {"a": RETURNING},
            ["v", "y"],
            id="as many as serve, and no more",
        ),
        pytest.param(
            1,
            (on("x", "a", "ready", "silent"), on("y", "b", "ready"), on("z", "c", "ready")),
            {"a": LOST, "b": DOUBT},
            ["x leaving", "y", "z"],
            id="one in doubt is not what another is removed for",
        ),
        pytest.param(
            1,
            (on("v", "c", "ready"), on("x", "b", "ready", "silent"), on("y", "a", "ready")),
            {"b": DOUBT},
            ["y", "x"],
            id="of those that are seen, too many are removed",
        ),
    ],
)
def test_replicas_that_are_not_seen_stay_and_are_not_counted_on(
    replicas: int, there: tuple[Replica, ...], states: dict[str, Any], expected: list[str]
) -> None:
    assert placed(replicas, there, **states) == expected


def test_devices_of_a_lost_replica_stay_taken() -> None:
    there = tuple(on(name, "b", "ready", "silent") for name in "xy")
    full = Deployment("ml", "other", "uid-other", 6, ENGINES, failover=True)
    found = schedule(Fleet(clusters(b=LOST), there), full)
    assert sorted(each.cluster for each in found.assignments) == ["a", "a", "c", "c"]


def test_without_failover_one_that_cannot_be_seen_is_scaled_down_first() -> None:
    there = (on("x", "a", "ready", "silent"), on("y", "b", "ready"))
    assert placed(1, there, failover=False) == ["y"]
    assert placed(2, there, failover=False) == ["x", "y"]
