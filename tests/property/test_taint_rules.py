"""A DeviceTaintRule is the same taint in the slices, and a report of health takes what its pod holds."""

from random import Random

from hypothesis import given, settings, strategies as st

from modelplane.api.fields.cluster.devices import Device
from modelplane.api.fields.cluster.node_pools import NodePool
from modelplane.api.fields.cluster.usable_capacity import Loss
from modelplane.compose.cluster.capacity_facts import (
    ClaimFacts,
    DeviceFacts,
    DeviceKind,
    NodeFacts,
    RuleFacts,
    SliceFacts,
    Taint,
)
from modelplane.compose.cluster.observed_capacity import Cluster, Observation, observe

DRIVERS = ("gpu.example.com", "nic.example.com")
CLASS = tuple(Device(name=each[:3], driver=each, device_class_name=each, count=3) for each in DRIVERS)
NODES = ("n1", "n2")
POOL = NodePool(name="a", class_name="c", node_count=2)
KEYS = ("hot", "error")


def published(random: Random) -> tuple[SliceFacts, ...]:
    return tuple(
        SliceFacts(
            driver,
            node,
            node,
            1,
            1,
            tuple(
                DeviceFacts(f"d{at}", DeviceKind(()), taints(random) if random.random() < 0.2 else ())
                for at in range(random.randint(2, 3))
            ),
        )
        for node in NODES
        for driver in DRIVERS
    )


def taints(random: Random) -> tuple[Taint, ...]:
    return ((random.choice(KEYS), "", random.choice(("NoSchedule", "NoExecute"))),)


def rules(random: Random) -> tuple[RuleFacts, ...]:
    return tuple(
        RuleFacts(
            random.choice((None, *DRIVERS, "other")),
            random.choice((None, *NODES)),
            random.choice((None, "d0", "d1", "d9")),
            taints(random) if random.random() < 0.8 else (),
        )
        for _ in range(random.randint(0, 4))
    )


def claims(random: Random, slices: tuple[SliceFacts, ...]) -> tuple[ClaimFacts, ...]:
    devices = [(each.driver, each.pool, device.name) for each in slices for device in each.devices]
    random.shuffle(devices)
    found = []
    for number in range(random.randint(0, 4)):
        taken, devices = tuple(devices[:2]), devices[2:]
        found.append(ClaimFacts(random.choice(("team", "batch")), f"p{number}", taken))
    return tuple(found)


def seen(cluster: Cluster) -> Observation:
    found = observe(POOL, CLASS, cluster)
    assert isinstance(found, Observation)
    return found


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_a_rule_is_the_taint_that_it_adds(seed: int) -> None:
    random = Random(seed)  # noqa: S311  nothing here is a secret
    slices = published(random)
    applied = rules(random)
    tainted = tuple(
        SliceFacts(
            each.driver,
            each.node,
            each.pool,
            each.generation,
            each.slices,
            tuple(
                DeviceFacts(
                    device.name,
                    device.kind,
                    # First those of its slice, then those of rules for its pool, then those for all.
                    (
                        *device.taints,
                        *(
                            taint
                            for of_pool in (True, False)
                            for rule in applied
                            if (rule.pool is not None) == of_pool
                            and rule.matches(each.driver, each.pool, device.name)
                            for taint in rule.taints
                        ),
                    ),
                )
                for device in each.devices
            ),
        )
        for each in slices
    )
    nodes = tuple(NodeFacts(each, "a", True, False) for each in NODES)
    held = claims(random, slices)
    given_devices = {("a", "team"): random.randint(0, 6)}
    by_rule = seen(Cluster(nodes, slices, held, given_devices, applied))
    assert by_rule == seen(Cluster(nodes, tainted, held, given_devices))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_a_report_takes_no_more_than_its_pod_holds(seed: int) -> None:
    random = Random(seed)  # noqa: S311  nothing here is a secret
    slices = published(random)
    nodes = tuple(NodeFacts(each, "a", True, False) for each in NODES)
    held = claims(random, slices)
    given_devices = {("a", "team"): 99, ("a", "batch"): 99}
    names = ["gpu.example.com/n1/d0", "k8s.gpu.example.com/device=d1", "x", "y", "z"]
    reports = {
        (random.choice(("team", "batch", "other")), f"p{number}"): random.sample(names, random.randint(1, 5))
        for number in range(random.randint(0, 3))
    }
    before = seen(Cluster(nodes, slices, held, given_devices))
    after = seen(Cluster(nodes, slices, held, given_devices, reports=reports))
    holds = {(each.namespace, each.holder): len(each.devices) for each in held}
    most = sum(min(holds.get(pod, 0), len(ids)) for pod, ids in reports.items())
    lost = sum(count for (loss, _, _), count in after.terms.items() if loss is Loss.DEVICE_UNHEALTHY)
    assert lost <= most
    assert sum(map(sum, after.missing)) - sum(map(sum, before.missing)) == lost
