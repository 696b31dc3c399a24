"""Usable capacity against the real kube-scheduler, and its way from a cluster into the status.

The control plane has KEP-5055 (taints of devices, by slices and by rules) and KEP-4680 (health of devices in
the status of pods), which are off by default in this version of Kubernetes.
"""

import base64
import random
import shlex

import pytest

from modelplane.api.fields.cluster.devices import Device
from modelplane.api.fields.cluster.node_pools import Accounting, NodePool
from modelplane.api.fields.cluster.usable_capacity import Loss
from modelplane.api.inference_cluster import GPUPool
from modelplane.api.schema.decode import convert
from modelplane.compose.cluster import capacity_status
from modelplane.compose.cluster.capacity_facts import facts_of
from modelplane.compose.cluster.observed_capacity import Cluster, Observation, observe
from modelplane.compose.deployment import scheduler_input
from modelplane.compose.readiness import condition_of
from modelplane.controllers import fleet_resources
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.local.home import Home
from modelplane.local.kubernetes import cluster_objects
from modelplane.scheduler import (
    Cluster as PlacementCluster,
    Deployment,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    Replica,
    schedule,
)
from support import gpu_nodes, kinds, replicas
from support.controllers import running_controllers
from support.fleets import control_plane_of
from support.gpu_nodes import DRIVER, PER_NODE, SELECTOR, SLICES, Nodes, create_pod, unbound
from support.patience import eventually

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

GATES = "--feature-gates=DRADeviceTaints=true,DRADeviceTaintRules=true,ResourceHealthStatus=true"
SERVED = "--runtime-config=resource.k8s.io/v1alpha3=true"
TAINT = {"key": "gpu-error", "value": "79", "effect": "NoSchedule"}
DEVICE = Device(name="gpu", driver=DRIVER, device_class_name=DRIVER, count=PER_NODE)
SIZES = (1, 2, 3, 4, 8)


@pytest.fixture(scope="module")
def plane(kubernetes_binary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("capacity")
    program = folder / "kubernetes"
    program.write_text(
        '#!/bin/sh\nfor each; do shift; set -- "$@" "$each"\n'
        f'case "$each" in kube-*) set -- "$@" {GATES};; esac\n'
        f'case "$each" in kube-apiserver) set -- "$@" {SERVED};; esac; done\n'
        f'exec {shlex.quote(str(kubernetes_binary))} "$@"\n'
    )
    program.chmod(0o700)
    with control_plane_of(Home(folder / "home"), program) as started:
        yield started


@pytest.fixture
async def client(plane):
    async with Client.from_kubeconfig(str(plane.kubeconfig), known=fleet_resources.find_known) as client:
        await client.apply(gpu_nodes.device_class())
        yield client


async def namespace_of(client, prefix):
    created = await client.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": f"{prefix}-"}}
    )
    name = created["metadata"]["name"]
    for count in SIZES:
        template = gpu_nodes.claim_template(f"gpus-{count}", count)
        template["metadata"]["namespace"] = name
        await client.create(template)
    return name


async def taint(client, node, devices):
    """Taint devices of a node, in a new generation of its ResourceSlice."""
    known = await client.get(SLICES, node)
    published = [
        {**each, "taints": [TAINT]} if int(each["name"].removeprefix("gpu-")) in devices else each
        for each in known["spec"]["devices"]
    ]
    pool = {**known["spec"]["pool"], "generation": known["spec"]["pool"]["generation"] + 1}
    written = await client.patch(SLICES, node, {"spec": {"devices": published, "pool": pool}}, kind="merge")
    assert sum("taints" in each for each in written["spec"]["devices"]) == len(devices)


async def taint_by_rule(client, name, selector, effect="NoSchedule"):
    """Taint the devices that a selector matches, without a change of a ResourceSlice."""
    rule = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {**TAINT, "key": "thermal", "effect": effect}},
    }
    await client.create(rule)


async def pool_of(client, name, nodes, given=None):
    """Return the pool as a placement sees it, from what the API server has."""
    kinds_read = (resources.NODES, SLICES, resources.RESOURCE_CLAIMS, resources.DEVICE_TAINT_RULES)
    nodes_read, slices, claims, rules = [facts_of((await client.list(kind)).items) for kind in kinds_read]
    spec = NodePool(name=name, class_name="c", node_count=nodes, accounting=Accounting.DEVICES)
    found = observe(spec, (DEVICE,), Cluster(nodes_read, slices, claims, given or {}, rules))
    assert isinstance(found, Observation), found
    pool = GPUPool(name=name, nodes=nodes, accounting=Accounting.DEVICES, devices=(DEVICE,))
    usable = capacity_status.published(pool, found, None, 0)
    return convert({**vars_of(pool), "usable": usable}, GPUPool), found


def vars_of(pool):
    return {name: getattr(pool, name) for name in ("name", "nodes", "accounting", "devices")}


def let_in(pool, sizes):
    """Place replicas of these sizes, one after the other; return the sizes of those that were placed."""
    replicas: list[Replica] = []
    placed = []
    for number, size in enumerate(sizes):
        member = Member(requests=(DeviceRequest("gpu", size, (SELECTOR,)),))
        wanted = Deployment("team", f"d{number}", f"uid-{number}", 1, (Engine("main", 1, (member,)),))
        cluster = PlacementCluster(
            "here", gateway_address="192.0.2.1", pools=(scheduler_input.read_pool(pool),)
        )
        for each in schedule(Fleet((cluster,), tuple(replicas)), wanted).assignments:
            replicas.append(
                Replica("team", f"d{number}", wanted.uid, wanted.name, "here", each.index, each.engines)
            )
            placed.append(size)
    return placed


async def run(client, namespace, pool, sizes):
    """Create pods of these sizes; return their names."""
    names = [f"{namespace}-{at}" for at in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        await create_pod(client, namespace, gpu_nodes.pod(name, pool, size, name))
    return names


async def settled(client, namespace, waiting):
    """Wait until all pods are bound but so many, which kube-scheduler cannot bind."""

    async def reached():
        pods = (await client.list(resources.PODS, namespace)).items
        refused = [each for each in pods if condition_of(each, "PodScheduled").get("status") == "False"]
        return len(await unbound(client, namespace)) == len(refused) == waiting

    await eventually(reached)


async def remove(client, namespace, names):
    for name in names:
        await client.delete(resources.PODS, name, namespace)

    async def released():
        return not (await client.list(resources.RESOURCE_CLAIMS, namespace)).items

    await eventually(released)


@pytest.mark.parametrize("seed", range(3))
async def test_usable_is_what_kube_scheduler_can_bind(client, seed):
    """Tainted devices, rules, a cordoned node and pods of others: no device more, and none less."""
    chance = random.Random(seed)  # noqa: S311  nothing here is a secret
    count = 3
    batch, team = await namespace_of(client, "batch"), await namespace_of(client, "team")
    async with Nodes(client, f"live-{seed}", count) as world:
        for node in world.names:
            if tainted := chance.sample(range(PER_NODE), chance.randint(0, 3)):
                await taint(client, node, tainted)
        if seed == 1:
            await taint_by_rule(client, "one", {"pool": world.names[0], "device": "gpu-0"})
            await taint_by_rule(client, "alike", {"driver": DRIVER, "device": "gpu-1"}, "NoExecute")
            await taint_by_rule(client, "dry-run", {}, "None")
            await taint_by_rule(client, "elsewhere", {"driver": "other.example.com"})
        if seed == 2:
            await client.patch(
                resources.NODES, world.names[0], {"spec": {"unschedulable": True}}, kind="merge"
            )
        foreign = await run(client, batch, world.pool, [1, 2, chance.choice((1, 3))])
        await settled(client, batch, 0)

        pool, seen = await pool_of(client, world.pool, count)
        cordoned = Loss.NODE_UNSCHEDULABLE if seed == 2 else Loss.DEVICE_TAINTED
        assert {loss for loss, _, _ in seen.terms} >= {cordoned, Loss.HELD_BY_OTHERS}
        assert any(key == "thermal" for _, _, key in seen.terms) == (seed == 1)
        ones = let_in(pool, [1] * (count * PER_NODE))
        assert 0 < len(ones) == capacity_total(pool)
        names = await run(client, team, world.pool, [*ones, 1])
        await settled(client, team, 1)
        # Their own devices are not others': what may be used is the same while replicas hold it.
        again, _ = await pool_of(client, world.pool, count, {(world.pool, team): len(ones)})
        assert capacity_total(again) == capacity_total(pool)
        await remove(client, team, names)

        mixed = let_in(pool, [chance.choice((1, 1, 2, 3, 4, 8)) for _ in range(40)])
        chance.shuffle(mixed)
        names = await run(client, team, world.pool, mixed)
        await settled(client, team, 0)
        await remove(client, team, names)
        await remove(client, batch, foreign)
    for each in (await client.list(resources.DEVICE_TAINT_RULES)).items:
        await client.delete(resources.DEVICE_TAINT_RULES, each["metadata"]["name"])


async def test_a_rule_without_a_selector_taints_every_device(client):
    """The scheduler's word, not that of the API's documentation, which says that it taints none."""
    team = await namespace_of(client, "team")
    async with Nodes(client, "unselected", 1) as world:
        await taint_by_rule(client, "unselected", None)
        names: list[str] = []

        async def decided():
            [pod] = (await client.list(resources.PODS, team)).items
            return condition_of(pod, "PodScheduled").get("status")

        async def refused():
            names[:] = await run(client, team, world.pool, [1])
            if await eventually(decided) == "False":
                return True
            await remove(client, team, names)  # the scheduler has not seen the rule yet
            return False

        await eventually(refused)
        await settled(client, team, 1)
        pool, _ = await pool_of(client, world.pool, 1)
        assert capacity_total(pool) == 0
        await client.delete(resources.DEVICE_TAINT_RULES, "unselected")
        await settled(client, team, 0)
        await remove(client, team, names)


def capacity_total(pool):
    lost = sum(vector[0] * nodes for vector, nodes in capacity_status.vectors(pool, pool.usable))
    return pool.usable.nodes * PER_NODE - lost


def manifests_of(plane, pool, nodes):
    encoded = base64.b64encode(plane.home.controller_kubeconfig.read_bytes()).decode()
    device = {"name": "gpu", "driver": DRIVER, "deviceClassName": DRIVER, "count": PER_NODE}
    spec = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "live-kubeconfig"}}},
        "servingStack": {"profile": "None"},
        "capacitySource": "Observed",
        "nodePools": [{"name": pool, "className": "live", "nodeCount": nodes, "accounting": "Devices"}],
    }
    return [
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceClass",
            "metadata": {"name": "live"},
            "spec": {"devices": [device]},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "live-kubeconfig", "namespace": "modelplane-system"},
            "data": {"kubeconfig": encoded},
        },
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "live"},
            "spec": spec,
        },
    ]


async def says(client, status, text):
    """Wait until the condition about capacity has a status and a text."""

    async def reached():
        found = condition_of(await client.get(fleet_resources.INFERENCE_CLUSTERS, "live"), "CapacityObserved")
        return found.get("status") == status and text in found.get("message", "")

    await eventually(reached)


async def a_device_of_a_replica_becomes_unhealthy(client, world):
    """Report it as a kubelet does, and wait until the replica and the capacity of its cluster say so."""
    team = await namespace_of(client, "team")
    metadata = {"name": "ill", "namespace": team, "labels": {"modelplane.ai/cluster": "live"}}
    request = {"name": "gpu", "deviceClassName": DRIVER, "count": 1}
    placed = replicas.member(pool=world.pool) | {"deviceRequests": [request]}
    spec = {"clusterName": "live", "engines": [replicas.engine("main", placed)]}
    await client.apply({**replicas.manifest(), "metadata": metadata, "spec": spec})

    async def bound():
        pods = (await client.list(resources.PODS, team)).items
        return pods if pods and not await unbound(client, team) else None

    [pod] = await eventually(bound)
    [claim] = (await client.list(resources.RESOURCE_CLAIMS, team)).items
    [device] = claim["status"]["allocation"]["devices"]["results"]
    identity = f"{DRIVER}/{device['pool']}/{device['device']}"
    [held] = pod["spec"]["containers"][0]["resources"]["claims"]
    named = "/".join(filter(None, (f"claim:{held['name']}", held.get("request"))))
    health = {"name": named, "resources": [{"resourceID": identity, "health": "Unhealthy"}]}
    image = {"image": "i", "imageID": "i", "ready": False, "restartCount": 0}
    container = {"name": "engine", **image, "allocatedResourcesStatus": [health]}
    status = {"status": {"phase": "Running", "containerStatuses": [container]}}
    name = pod["metadata"]["name"]
    await client.patch(resources.PODS, name, status, team, kind="strategic", subresource="status")
    await says(client, "True", "1 gpu unhealthy")

    # The replica is reconciled apart from its cluster, and an event follows the status.
    async def told():
        events = (await client.list(resources.EVENTS, team)).items
        return [each["type"] for each in events if each["reason"] == "DeviceUnhealthy"]

    assert await eventually(told) == ["Warning"]
    said = await client.get(fleet_resources.MODEL_REPLICAS, "ill", team)
    assert f'"{identity}" of pod "{name}"' in condition_of(said, "DevicesHealthy")["message"]
    assert said["status"]["unhealthyDevices"] == [{"pod": name, "device": identity}]
    await client.delete(fleet_resources.MODEL_REPLICAS, "ill", team)


async def test_the_controllers_publish_what_they_observe_and_say_what_they_may_not_read(client, plane):
    await kinds.install(client, cluster_objects.load_gateway_api())
    async with Nodes(client, "watched", 1) as world:
        for manifest in [*cluster_objects.build_manifests(), *manifests_of(plane, world.pool, 1)]:
            await client.apply(manifest)
        async with running_controllers(plane):
            await says(client, "True", 'pool "watched": 8 gpu declared, 8 usable')
            await taint(client, world.names[0], [3])
            await says(client, "True", "8 gpu declared, 7 usable: 1 gpu tainted gpu-error")
            await taint_by_rule(client, "hot", {"pool": world.names[0], "device": "gpu-4"})
            await says(client, "True", "1 gpu tainted gpu-error, 1 gpu tainted thermal")
            await client.delete(resources.DEVICE_TAINT_RULES, "hot")
            await a_device_of_a_replica_becomes_unhealthy(client, world)
        # A registration by 0.7.0: all but the rules may be read, and counts.
        role = await client.get(resources.CLUSTER_ROLES, "modelplane-inference-cluster")
        rules = [
            {**each, "resources": [kind for kind in each.get("resources", ()) if kind != "devicetaintrules"]}
            for each in role["rules"]
        ]
        assert rules != role["rules"]
        await client.patch(resources.CLUSTER_ROLES, role["metadata"]["name"], {"rules": rules}, kind="merge")
        async with running_controllers(plane):
            await says(client, "True", "DeviceTaintRules can't be listed, so device taints are ignored")
        # An earlier registration: nothing new may be read, and what is known stays.
        rules = [each for each in role["rules"] if "resourceslices" not in each.get("resources", ())]
        assert len(rules) < len(role["rules"])
        await client.patch(resources.CLUSTER_ROLES, role["metadata"]["name"], {"rules": rules}, kind="merge")
        async with running_controllers(plane):
            await says(client, "False", 'pool "watched" keeps its last known capacity: cannot list')
            [pool] = (await client.get(fleet_resources.INFERENCE_CLUSTERS, "live"))["status"]["gpuPools"]
            assert pool["usable"]["missing"] == [{"nodes": 1, "devices": [{"name": "gpu", "count": 2}]}]

            declared = {"spec": {"capacitySource": "Declared"}}
            await client.patch(fleet_resources.INFERENCE_CLUSTERS, "live", declared, kind="merge")

            async def forgotten():
                found = await client.get(fleet_resources.INFERENCE_CLUSTERS, "live")
                return all("usable" not in each for each in found["status"]["gpuPools"])

            await eventually(forgotten)
