"""What a pool promises to pods that share its nodes."""

import pytest

from modelplane.scheduler.free_capacity import DeviceCapacity, Group, Load, NodeCapacity, PodDemand


def pod(*need: int) -> Group:
    return gang((1, need))


def gang(*pods: tuple[int, tuple[int, ...]]) -> Group:
    return Group(tuple(sorted((PodDemand(need, need, (True,) * len(need)), count) for count, need in pods)))


def taken(capacity: DeviceCapacity, group: Group) -> int:
    """Return how many copies of a group a pool takes, one after the other."""
    copies = 0
    while (smaller := capacity.take(Load(group, 1))) is not None:
        capacity, copies = smaller, copies + 1
    return copies


@pytest.mark.parametrize(
    ("nodes", "devices", "group", "copies"),
    [
        pytest.param(2, (8,), pod(1), 16, id="all of them, one by one"),
        pytest.param(2, (8,), pod(2), 8, id="all of them, in twos"),
        pytest.param(3, (8,), pod(3), 6, id="two times three of eight on each node"),
        pytest.param(3, (8,), pod(5), 3, id="five of eight: one on each node"),
        pytest.param(3, (8,), pod(8), 3, id="whole nodes"),
        pytest.param(3, (8,), pod(9), 0, id="more than a node has"),
        pytest.param(3, (8, 8), pod(1, 1), 24, id="two entries that are used alike"),
        pytest.param(3, (8, 16), pod(1, 2), 24, id="each in its own number"),
        pytest.param(3, (8, 8), pod(3, 1), 6, id="the scarcer of two entries decides"),
        pytest.param(0, (8,), pod(1), 0, id="a pool without nodes"),
        pytest.param(4, (8,), gang((1, (8,)), (3, (8,))), 1, id="a gang over all nodes"),
        pytest.param(3, (8,), gang((1, (8,)), (3, (8,))), 0, id="a gang that is larger than the pool"),
        pytest.param(2, (8,), gang((1, (4,)), (1, (4,))), 2, id="two gangs on the same two nodes"),
    ],
)
def test_pods_of_one_size_lose_nothing(
    nodes: int, devices: tuple[int, ...], group: Group, copies: int
) -> None:
    assert taken(DeviceCapacity(nodes, devices), group) == copies


@pytest.mark.parametrize(
    ("nodes", "held", "group", "copies"),
    [
        pytest.param(2, ((pod(1), 1),), pod(8), 1, id="one small pod closes one node to a large one"),
        pytest.param(2, ((pod(1), 2),), pod(8), 0, id="two may close two"),
        pytest.param(2, ((pod(4), 2),), pod(2), 3, id="twos beside fours: one four must fit again anywhere"),
        pytest.param(2, ((pod(2), 4),), pod(4), 1, id="fours beside twos: a node may have three twos"),
        pytest.param(3, ((pod(8), 1),), pod(1), 2, id="a large one comes back after a restart on any node"),
    ],
)
def test_pods_of_several_sizes_keep_their_promise(
    nodes: int, held: tuple[tuple[Group, int], ...], group: Group, copies: int
) -> None:
    assert taken(DeviceCapacity(nodes, (8,), held), group) == copies


def test_a_pod_that_may_take_from_either_entry_counts_on_both() -> None:
    either = Group(((PodDemand((2, 0), (2, 2), (False, False)), 1),))
    capacity = DeviceCapacity(1, (4, 4)).take(Load(either, 1))
    assert capacity is not None
    assert capacity.take(Load(pod(3, 0), 1)) is None
    assert capacity.take(Load(pod(0, 3), 1)) is None
    assert capacity.take(Load(pod(2, 0), 1)) is not None


def test_nodes_are_counted_whole() -> None:
    assert NodeCapacity(4, 2).take(Load(pod(1), 2)) == NodeCapacity(4, 0)
    assert NodeCapacity(4, 2).take(Load(pod(1), 3)) is None
