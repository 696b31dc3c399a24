"""Each term of a pool's capacity, and what cannot be counted."""

from collections import Counter
from typing import Any

import pytest

from modelplane.api.fields.cluster.devices import Claim, Device, DeviceAttribute, DeviceCapacity
from modelplane.api.fields.cluster.node_pools import NodePool, NodeTaint, NodeTaintEffect
from modelplane.api.fields.cluster.usable_capacity import Loss
from modelplane.compose.cluster.capacity_facts import ClaimFacts, facts_of
from modelplane.compose.cluster.observed_capacity import Cluster, Observation, observe
from modelplane.compose.composition import Blocked

DRIVER = "gpu.nvidia.com"
GPU = Device(name="gpu", driver=DRIVER, device_class_name=DRIVER, count=4)
POOL = NodePool(name="a", class_name="h100", node_count=2)
GROWING = NodePool(name="a", class_name="h100", node_count=1, min_node_count=0, max_node_count=4)
TAINT = {"key": "gpu-error", "value": "xid", "effect": "NoSchedule"}


def node(name: str, pool: str = "a", ready: str = "True", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"modelplane.ai/pool": pool}},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def devices(count: int, **first: Any) -> list[dict[str, Any]]:
    return [{"name": f"gpu-{at}", **(first if at == 0 else {})} for at in range(count)]


def piece(on: str, published: list[dict[str, Any]], generation: int = 1, of: int = 1, **spec: Any) -> Any:
    pool = {"name": on, "generation": generation, "resourceSliceCount": of}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{on}-{generation}"},
        "spec": {"driver": DRIVER, "nodeName": on, "pool": pool, "devices": published, **spec},
    }


def claim(holder: str, on: str, *names: str, reserved: bool = True, **result: Any) -> dict[str, Any]:
    namespace, pod = holder.split("/")
    results = [{"driver": DRIVER, "pool": on, "device": name, **result} for name in names]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": pod, "namespace": namespace},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": "1"}] if reserved else [],
        },
    }


def rule(selector: Any, effect: str = "NoSchedule") -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {"deviceSelector": selector, "taint": {"key": "thermal", "effect": effect}},
    }


NODES = [node("n1"), node("n2")]
SLICES = [piece("n1", devices(4)), piece("n2", devices(4))]


def seen(
    nodes: list[Any] = NODES,
    slices: list[Any] = SLICES,
    claims: list[Any] = [],  # noqa: B006 - it stays empty
    pool: NodePool = POOL,
    given: dict[tuple[str, str], int] | None = None,
    of: tuple[Device, ...] = (GPU,),
    rules: list[Any] = [],  # noqa: B006 - it stays empty
    reports: dict[tuple[str, str], list[str]] | None = None,
) -> Observation | Blocked:
    held = Counter(given or {})
    cluster = Cluster(
        facts_of(nodes), facts_of(slices), facts_of(claims), held, facts_of(rules), reports or {}
    )
    return observe(pool, of, cluster)


TERMS = [
    pytest.param({}, Observation(2, 0, ((0,), (0,))), id="all as declared"),
    pytest.param(
        {"nodes": [node("n1"), node("n2", ready="Unknown")]},
        Observation(1, 0, ((0,),), {(Loss.NODE_NOT_READY, "nodes", ""): 1}),
        id="a kubelet that is silent: nothing can start there",
    ),
    pytest.param(
        {"nodes": [node("n1"), node("n2", unschedulable=True)]},
        Observation(1, 0, ((0,),), {(Loss.NODE_UNSCHEDULABLE, "nodes", ""): 1}),
        id="a cordoned node",
    ),
    pytest.param(
        {"nodes": [node("n1"), node("n2", taints=[TAINT])]},
        Observation(1, 0, ((0,),), {(Loss.NODE_TAINTED, "nodes", "gpu-error"): 1}),
        id="a taint that the pods of the pool do not tolerate",
    ),
    pytest.param(
        {
            "nodes": [
                node("n1", taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]),
                node(
                    "n2",
                    taints=[{**TAINT, "effect": "PreferNoSchedule"}, {"key": "own", "effect": "NoExecute"}],
                ),
            ],
            "pool": NodePool(
                name="a",
                class_name="h100",
                node_count=2,
                taints=(NodeTaint(key="own", effect=NodeTaintEffect.NO_EXECUTE),),
            ),
        },
        Observation(2, 0, ((0,), (0,))),
        id="taints that they tolerate, or that only ask",
    ),
    pytest.param(
        {"nodes": NODES[:1]},
        Observation(1, 0, ((0,),), {(Loss.NODE_ABSENT, "nodes", ""): 1}),
        id="fewer nodes than declared, in a pool that does not grow",
    ),
    pytest.param(
        {"nodes": [*NODES, node("n3")], "slices": [*SLICES, piece("n3", devices(4, taints=[TAINT]))]},
        Observation(2, 0, ((0,), (0,))),
        id="more nodes than declared: the best ones count, and no more than declared",
    ),
    pytest.param(
        {"nodes": [node("n1"), node("n2", pool="b")]},
        Observation(1, 0, ((0,),), {(Loss.NODE_ABSENT, "nodes", ""): 1}),
        id="the node of another pool",
    ),
    pytest.param(
        {"slices": [SLICES[0], piece("n2", devices(4, taints=[TAINT]))]},
        Observation(2, 0, ((0,), (1,)), {(Loss.DEVICE_TAINTED, "gpu", "gpu-error"): 1}),
        id="a tainted device (KEP-5055)",
    ),
    pytest.param(
        {"slices": [SLICES[0], piece("n2", devices(4, taints=[{**TAINT, "effect": "None"}]))]},
        Observation(2, 0, ((0,), (0,))),
        id="a taint of no effect, or of one that is not known",
    ),
    pytest.param(
        {"rules": [rule({"driver": DRIVER, "pool": "n2", "device": "gpu-1"}), rule({"device": "gpu-9"})]},
        Observation(2, 0, ((0,), (1,)), {(Loss.DEVICE_TAINTED, "gpu", "thermal"): 1}),
        id="a rule that taints one device, and one that matches none",
    ),
    pytest.param(
        {"rules": [rule({"device": "gpu-1"}, "NoExecute")]},
        Observation(2, 0, ((1,), (1,)), {(Loss.DEVICE_TAINTED, "gpu", "thermal"): 2}),
        id="a rule for a name of devices, on every node",
    ),
    pytest.param(
        {
            "rules": [rule({}), rule({"driver": "other"}, "NoExecute")],
            "slices": [SLICES[0], piece("n2", devices(4, taints=[TAINT]))],
        },
        Observation(
            2,
            0,
            ((4,), (4,)),
            {(Loss.DEVICE_TAINTED, "gpu", "thermal"): 7, (Loss.DEVICE_TAINTED, "gpu", "gpu-error"): 1},
        ),
        id="a rule for all devices: each is lost once, by the taint of its slice first",
    ),
    pytest.param(
        {"rules": [rule(None)]},
        Observation(2, 0, ((4,), (4,)), {(Loss.DEVICE_TAINTED, "gpu", "thermal"): 8}),
        id="a rule without a selector: kube-scheduler taints every device",
    ),
    pytest.param(
        {"rules": [rule({}, "None"), rule({}, "Later"), rule({"pool": ["n1"]})]},
        Observation(2, 0, ((0,), (0,))),
        id="a dry run, an effect that is not known, and a selector that is malformed",
    ),
    pytest.param(
        {
            "claims": [claim("team/own", "n1", "gpu-0", "gpu-1"), claim("team/other", "n2", "gpu-0")],
            "given": {("a", "team"): 3},
            "reports": {("team", "own"): [f"{DRIVER}/n1/gpu-1"], ("team", "gone"): [f"{DRIVER}/n2/gpu-0"]},
        },
        Observation(2, 0, ((0,), (1,)), {(Loss.DEVICE_UNHEALTHY, "gpu", ""): 1}),
        id="an unhealthy device of a replica (KEP-4680), and one of a pod that holds nothing",
    ),
    pytest.param(
        {
            "claims": [claim("team/own", "n1", "gpu-0")],
            "slices": [piece("n1", devices(4, taints=[TAINT])), SLICES[1]],
            "given": {("a", "team"): 1},
            "reports": {("team", "own"): [f"{DRIVER}/n1/gpu-0"]},
        },
        Observation(2, 0, ((0,), (1,)), {(Loss.DEVICE_TAINTED, "gpu", "gpu-error"): 1}),
        id="an unhealthy device that its driver taints too is lost once",
    ),
    pytest.param(
        {"slices": [SLICES[0], piece("n2", devices(3))]},
        Observation(
            2,
            0,
            ((0,), (1,)),
            {(Loss.DEVICE_ABSENT, "gpu", ""): 1},
            ("3 gpu published, 4 declared on 1 node",),
        ),
        id="an unhealthy device that its driver no longer publishes",
    ),
    pytest.param(
        {"slices": SLICES[:1]},
        Observation(2, 0, ((0,), (4,)), {(Loss.DEVICE_ABSENT, "gpu", ""): 4}),
        id="a node without a driver, beside one that has it",
    ),
    pytest.param(
        {"claims": [claim("batch/x", "n1", "gpu-0", "gpu-1")]},
        Observation(2, 0, ((0,), (2,)), {(Loss.HELD_BY_OTHERS, "gpu", "batch/x"): 2}),
        id="devices that another pod holds",
    ),
    pytest.param(
        {
            "claims": [
                claim("batch/admin", "n1", "gpu-0", adminAccess=True),
                claim("batch/over", "n1", "gpu-1", reserved=False),
                claim("batch/elsewhere", "other", "gpu-1"),
            ]
        },
        Observation(2, 0, ((0,), (0,))),
        id="claims that hold nothing: of an administrator, unused, or elsewhere",
    ),
    pytest.param(
        {"claims": [claim("team/own", "n1", "gpu-0", "gpu-1")], "given": {("a", "team"): 2}},
        Observation(2, 0, ((0,), (0,))),
        id="devices of replicas",
    ),
    pytest.param(
        {
            "claims": [claim("team/own", "n1", "gpu-0", "gpu-1"), claim("team/other", "n2", "gpu-0")],
            "given": {("a", "team"): 2},
        },
        Observation(2, 0, ((0,), (1,)), {(Loss.HELD_BY_OTHERS, "gpu", "team/other"): 1}),
        id="pods beside replicas in their namespace: no label makes them replicas",
    ),
    pytest.param(
        {"nodes": NODES[:1], "pool": GROWING},
        Observation(4, 3, ((0,),)),
        id="nodes that an autoscaler may add",
    ),
    pytest.param(
        {"nodes": [], "slices": [], "pool": GROWING},
        Observation(4, 4, ()),
        id="a pool at zero publishes nothing, and may grow to all of it",
    ),
    pytest.param(
        {"nodes": [node("n1", ready="False"), node("n2")], "pool": GROWING},
        Observation(3, 2, ((0,),), {(Loss.NODE_NOT_READY, "nodes", ""): 1}),
        id="a node that is not ready takes the place of one that could be added",
    ),
    pytest.param(
        {"slices": [piece("n1", devices(1), generation=1), piece("n1", devices(4), generation=2), SLICES[1]]},
        Observation(2, 0, ((0,), (0,))),
        id="the newest generation counts",
    ),
    pytest.param(
        {"slices": [piece("n1", devices(9), sharedCounters=[{"name": "memory"}]), SLICES[1]]},
        Observation(2, 0, ((0,), (0,))),
        id="partitions that share hardware cannot be counted, so they are as declared",
    ),
]


@pytest.mark.parametrize(("world", "expected"), TERMS)
def test_each_term_of_a_pool(world: dict[str, Any], expected: Observation) -> None:
    assert seen(**world) == expected


UNCLEAR = [
    pytest.param({"nodes": []}, "no node has the label modelplane.ai/pool=a", id="no node has the label"),
    pytest.param(
        {"slices": []},
        f'no node publishes devices of driver "{DRIVER}"',
        id="no driver, or a cluster without DRA",
    ),
    pytest.param(
        {"slices": [piece("n1", devices(4), generation=1), piece("n1", devices(2), generation=2, of=2)]},
        f'node "n1" has 1 of 2 ResourceSlices of driver "{DRIVER}"',
        id="a generation that is being written",
    ),
]


@pytest.mark.parametrize(("world", "cause"), UNCLEAR)
def test_what_cannot_be_counted_is_unclear_and_never_zero(world: dict[str, Any], cause: str) -> None:
    assert seen(**world) == Blocked(cause)


def test_a_device_counts_for_the_entry_that_it_differs_least_from_and_drift_is_reported() -> None:
    """A driver publishes whole cards and partitions; a new driver version is drift, and no loss."""
    whole = Device(
        name="whole",
        driver=DRIVER,
        attributes={"type": DeviceAttribute(string="gpu"), "driverVersion": DeviceAttribute(version="1.0.0")},
        capacity={"memory": DeviceCapacity(value="80Gi")},
    )
    part = Device(name="part", driver=DRIVER, attributes={"type": DeviceAttribute(string="mig")})
    net = Device(name="net", driver="net.example.com", claim=Claim.SYNTHETIC, count=8)
    published: list[dict[str, Any]] = [
        {
            "name": "gpu-0",
            "attributes": {"type": {"string": "gpu"}, f"{DRIVER}/driverVersion": {"version": "2.0.0"}},
            "capacity": {"memory": {"value": "81920Mi"}},
        },
        {"name": "gpu-1", "attributes": {"type": {"string": "mig"}}, "taints": [TAINT]},
    ]
    assert seen(NODES[:1], [piece("n1", published)], of=(whole, part, net)) == Observation(
        1,
        0,
        ((0, 1, 0),),
        {(Loss.NODE_ABSENT, "nodes", ""): 1, (Loss.DEVICE_TAINTED, "part", "gpu-error"): 1},
        ("whole driverVersion is 2.0.0, 1.0.0 declared on 1 node",),
    )


def test_a_hostile_cluster_lowers_no_more_than_its_own_pool() -> None:
    """Values of another form than Kubernetes' are left out, and nothing is raised."""
    broken: list[Any] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "labels": {"modelplane.ai/pool": "a"}},
        },
        node("n2", taints="all of them"),
    ]
    slices: list[Any] = [{**SLICES[1], "spec": {**SLICES[1]["spec"], "devices": [7, {"name": ["x"]}]}}]
    claims: list[Any] = [{**claim("a/b", "n2", "gpu-0"), "status": {"reservedFor": [{}], "allocation": []}}]
    assert facts_of(claims) == (ClaimFacts("a"),)
    found = seen(broken, slices, claims)
    assert isinstance(found, Observation)
    assert found.terms == {(Loss.NODE_NOT_READY, "nodes", ""): 1, (Loss.DEVICE_ABSENT, "gpu", ""): 3}
