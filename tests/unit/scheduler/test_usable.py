"""What is observed of a pool limits new replicas, and takes nothing from those that exist."""

import pytest
from msgspec.structs import replace

from modelplane.scheduler import (
    Accounting,
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    Pool,
    Replica,
    Usable,
    list_overcommitted,
    schedule,
    sum_usage,
)

GPU = Device("gpu", "gpu.example.com", 8, device_class_name="gpu.example.com")
ANY = 'device.driver == "gpu.example.com"'
WHY = "16 gpu declared, 14 usable: 2 gpu held by others"


def fleet(usable: Usable | None, accounting: Accounting, replicas: tuple[Replica, ...] = ()) -> Fleet:
    pool = Pool("a", 2, (GPU,), accounting, usable=usable)
    return Fleet((Cluster("east", gateway_address="192.0.2.1", pools=(pool,)),), replicas)


def wanted(gpus: int, replicas: int, name: str = "new") -> Deployment:
    member = Member(requests=(DeviceRequest("gpu", gpus, (ANY,)),))
    return Deployment("team", name, f"uid-{name}", replicas, (Engine("main", 1, (member,)),))


def there(
    gpus: int, number: int, accounting: Accounting, *, name: str = "old", ready: bool = True
) -> Replica:
    [assignment] = schedule(fleet(None, accounting), wanted(gpus, 1, name)).assignments
    return Replica(
        "team", f"{name}-{number}", f"uid-{name}", name, "east", number, assignment.engines, ready=ready
    )


@pytest.mark.parametrize(
    ("usable", "accounting", "gpus", "placed"),
    [
        pytest.param(None, Accounting.NODES, 8, 2, id="nothing was observed: all that is declared"),
        pytest.param(Usable(1), Accounting.NODES, 8, 1, id="one node of two"),
        pytest.param(Usable(3), Accounting.NODES, 8, 2, id="never more than declared"),
        pytest.param(Usable(2, (((2,), 1),)), Accounting.DEVICES, 1, 14, id="two devices less, one by one"),
        pytest.param(
            Usable(2, (((2,), 1),)), Accounting.DEVICES, 8, 1, id="a whole node is on the other one"
        ),
        pytest.param(Usable(2, (((2,), 1),)), Accounting.DEVICES, 6, 2, id="the rest of the node is used"),
        pytest.param(Usable(2, (((1,), 2),)), Accounting.DEVICES, 8, 0, id="one device of each node"),
        pytest.param(Usable(1, (((8,), 1),)), Accounting.DEVICES, 1, 0, id="nothing at all"),
    ],
)
def test_new_replicas_use_what_is_usable(
    usable: Usable | None, accounting: Accounting, gpus: int, placed: int
) -> None:
    assert len(schedule(fleet(usable, accounting), wanted(gpus, 20)).assignments) == placed


@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("ready", [True, False], ids=["serving", "starting"])
def test_replicas_stay_when_nothing_is_usable(accounting: Accounting, ready: bool) -> None:
    """One that is not ready may be starting for minutes, and another deployment's is older."""
    replicas = (there(8, 0, accounting, name="first"), there(8, 0, accounting, ready=ready))
    state = fleet(Usable(0, why="no node is ready"), accounting, replicas)
    [stays] = schedule(state, wanted(8, 1, "old")).assignments
    assert (stays.replica, stays.leaving) == ("old-0", False)
    assert list_overcommitted(state) == [
        {
            Accounting.NODES: 'pool "a": replicas use 2 of its 0 usable nodes',
            Accounting.DEVICES: (
                'pool "a": replicas use 16 of its 0 usable gpu, and a replica '
                "that restarts might not fit again"
            ),
        }[accounting]
    ]


def test_what_is_declared_twice_over_still_yields() -> None:
    """Two deployments were given one node at the same time; that is not what was observed."""
    replicas = tuple(
        there(8, at, Accounting.NODES, name=name, ready=False)
        for name, at in (("first", 0), ("first", 1), ("old", 0))
    )
    dated = tuple(replace(each, created=f"2026-01-0{at}") for at, each in enumerate(replicas, 1))
    [assignment] = schedule(fleet(Usable(2), Accounting.NODES, dated), wanted(8, 1, "old")).assignments
    assert assignment.leaving


def test_the_diagnosis_names_what_is_lost_and_no_other_tenant() -> None:
    diagnosis = schedule(
        fleet(Usable(2, (((1,), 2),), WHY), Accounting.DEVICES), wanted(8, 1)
    ).diagnosis.describe()
    assert diagnosis == (
        "0 of 1 replicas placed; 1 cluster: 1 without enough free devices (east: pool a has 14 of 14 usable "
        f"gpu free, 8 needed, which Kubernetes might not assign on one node ({WHY})); to place "
        'one more, add 1 node to pool a of InferenceCluster "east"'
    )
    whole = schedule(fleet(Usable(0, why="2 nodes declared, 0 usable"), Accounting.NODES), wanted(8, 1))
    assert "pool a has 0 of 0 usable nodes free, 1 needed (2 nodes declared, 0 usable)" in (
        whole.diagnosis.describe()
    )


def test_usage_tells_what_is_declared_used_and_usable() -> None:
    state = fleet(Usable(2, (((2,), 1),)), Accounting.DEVICES, (there(6, 0, Accounting.DEVICES),))
    [[amount]] = [each.amounts for each in sum_usage(state)]
    assert (amount.total, amount.usable, amount.taken, amount.free) == (16, 14, 6, 8)
