"""What a pool of counted devices promises, against every way in which pods can be put on its nodes."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given, settings, strategies as st

from modelplane.scheduler.free_capacity import DeviceCapacity, Group, Load, PodDemand


@dataclass(frozen=True)
class Pod:
    """A pod of the brute-force world: what it takes of each entry, and the gang that it belongs to."""

    need: tuple[int, ...]
    gang: int


def group(needs: list[tuple[int, ...]]) -> Group:
    pods = [(PodDemand(need, need, (True,) * len(need)), needs.count(need)) for need in dict.fromkeys(needs)]
    return Group(tuple(sorted(pods)))


def capacity(nodes: int, devices: tuple[int, ...], gangs: list[list[tuple[int, ...]]]) -> DeviceCapacity:
    return DeviceCapacity.build(nodes, devices, [Load(group(gang), 1) for gang in gangs])


def fits(pod: Pod, node: tuple[Pod, ...], devices: tuple[int, ...]) -> bool:
    if any(other.gang == pod.gang for other in node):
        return False
    return all(
        sum(other.need[entry] for other in node) + pod.need[entry] <= have
        for entry, have in enumerate(devices)
    )


def arrangements(
    pods: list[Pod], nodes: tuple[tuple[Pod, ...], ...], devices: tuple[int, ...]
) -> Iterator[tuple[tuple[Pod, ...], ...]]:
    """Yield every way in which some of the pods can be on the nodes."""
    if not pods:
        yield nodes
        return
    first, *rest = pods
    yield from arrangements(rest, nodes, devices)
    for at, node in enumerate(nodes):
        if fits(first, node, devices):
            yield from arrangements(rest, (*nodes[:at], (*node, first), *nodes[at + 1 :]), devices)


def strands_a_pod(nodes: int, devices: tuple[int, ...], gangs: list[list[tuple[int, ...]]]) -> bool:
    """Whether kube-scheduler could put some of the pods so that another one finds no node."""
    pods = [Pod(need, number) for number, gang in enumerate(gangs) for need in gang]
    for at, pod in enumerate(pods):
        others = pods[:at] + pods[at + 1 :]
        for arrangement in arrangements(others, ((),) * nodes, devices):
            if not any(fits(pod, node, devices) for node in arrangement):
                return True
    return False


@st.composite
def worlds(draw: st.DrawFn) -> tuple[int, tuple[int, ...], list[list[tuple[int, ...]]]]:
    devices = draw(st.sampled_from(((2,), (3,), (4,), (2, 2), (3, 2), (4, 4))))
    need = st.tuples(*(st.integers(0, have) for have in devices)).filter(any)
    gangs = st.lists(st.lists(need, min_size=1, max_size=2), min_size=1, max_size=4)
    return draw(st.integers(1, 3)), devices, draw(gangs)


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_no_choice_of_nodes_strands_a_pod_that_was_let_in(
    world: tuple[int, tuple[int, ...], list[list[tuple[int, ...]]]],
) -> None:
    if not capacity(*world).overcommitted:
        assert not strands_a_pod(*world)


@settings(max_examples=150, deadline=None)
@given(worlds(), st.data())
def test_devices_that_cannot_be_had_strand_no_pod_that_was_let_in(
    world: tuple[int, tuple[int, ...], list[list[tuple[int, ...]]]], data: st.DataObject
) -> None:
    """Each node lacks its own devices, before any pod is there."""
    nodes, devices, gangs = world
    lack = st.tuples(*(st.integers(0, have) for have in devices))
    lacking = data.draw(st.lists(lack, min_size=nodes, max_size=nodes))
    counted = tuple((each, lacking.count(each)) for each in sorted(set(lacking)) if any(each))
    loads = [Load(group(gang), 1) for gang in gangs]
    if DeviceCapacity.build(nodes, devices, loads, counted).overcommitted:
        return
    pods = [Pod(need, number) for number, gang in enumerate(gangs) for need in gang]
    before = tuple((Pod(each, -1),) if any(each) else () for each in lacking)
    for at, pod in enumerate(pods):
        others = pods[:at] + pods[at + 1 :]
        for arrangement in arrangements(others, before, devices):
            assert any(fits(pod, node, devices) for node in arrangement)


@given(st.integers(1, 5), st.integers(1, 16), st.integers(1, 16))
def test_for_pods_of_one_size_every_device_is_used(nodes: int, have: int, need: int) -> None:
    most = nodes * (have // need)
    assert [
        capacity(nodes, (have,), [[(need,)]] * pods).overcommitted
        for pods in (max(most, 0), most + 1)
        if pods
    ] == ([False, True] if most else [True])


def test_the_brute_force_finds_what_it_looks_for() -> None:
    """Two nodes of two: two single pods may be on both, and then one that needs two has no place."""
    single: list[tuple[int, ...]] = [(1,)]
    double: list[tuple[int, ...]] = [(2,)]
    assert strands_a_pod(2, (2,), [single, single, double])
    assert not strands_a_pod(2, (2,), [single, double])
    assert len(list(itertools.islice(arrangements([Pod((1,), 0)], ((), ()), (2,)), 9))) == 3
