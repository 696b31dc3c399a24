"""Pods that share nodes by devices: what the fleet's scheduler lets in, the real kube-scheduler binds.

Each world is a pool of nodes with eight devices each. Deployments of mixed sizes are placed until some are
refused; then their pods are made in a random order, bound by kube-scheduler as it likes, and half of them are
restarted, again and again.
"""

import random
from typing import Any

import pytest

from modelplane.kube import resources
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
    Role,
    schedule,
)
from support.gpu_nodes import (
    DRIVER,
    PER_NODE,
    SELECTOR,
    Nodes,
    claim_template,
    create_pod,
    device_class,
    pod,
    unbound,
)
from support.patience import eventually

pytestmark = pytest.mark.kubernetes

DEVICE = Device("gpu", DRIVER, PER_NODE, device_class_name=DRIVER, capacity={"memory": "80Gi"})


@pytest.fixture
async def namespace(client):
    created = await client.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "devices-"}}
    )
    yield created["metadata"]["name"]
    await client.delete(resources.NAMESPACES, created["metadata"]["name"])


@pytest.fixture(autouse=True)
async def classes(client):
    await client.create(device_class())
    yield
    await client.delete(resources.DEVICE_CLASSES, DRIVER)


def fleet(pool, nodes, replicas):
    gpus = Pool(pool, nodes, (DEVICE,), Accounting.DEVICES)
    return Fleet((Cluster("here", gateway_address="192.0.2.1", pools=(gpus,)),), tuple(replicas))


def wanted(number, gpus, workers):
    request = (DeviceRequest("gpu", gpus, (SELECTOR,)),)
    members = (
        (Member(Role.LEADER, 1, request), Member(Role.WORKER, workers, request))
        if workers
        else (Member(requests=request),)
    )
    return Deployment("ml-team", f"d{number}", f"uid-{number}", 1, (Engine("main", 1, members),))


def let_in(chance, pool, nodes):
    """Place deployments until three in a row are refused; return the pods of those placed."""
    replicas: list[Any] = []
    pods: list[Any] = []
    refused = 0
    for number in range(200):
        deployment = wanted(number, chance.choice((1, 1, 2, 3, 4, 8)), chance.choice((0, 0, 0, 1)))
        placed = schedule(fleet(pool, nodes, replicas), deployment).assignments
        if not placed:
            refused += 1
            if refused == 3:
                break
            continue
        refused = 0
        [assignment] = placed
        replicas.append(
            Replica(
                "ml-team",
                f"d{number}",
                deployment.uid,
                deployment.name,
                "here",
                assignment.index,
                assignment.engines,
            )
        )
        pods += [
            pod(f"d{number}-{at}", pool, member.claims[0].count, f"d{number}")
            for engine in assignment.engines
            for at, member in enumerate(each for member in engine.members for each in [member] * member.pods)
        ]
    return pods


@pytest.mark.parametrize("seed", range(4))
async def test_every_pod_that_is_let_in_is_bound_in_any_order_and_after_restarts(client, namespace, seed):
    chance = random.Random(seed)  # noqa: S311  nothing here is a secret
    nodes = chance.randint(2, 5)
    async with Nodes(client, f"world-{seed}", nodes) as world:
        pods = let_in(chance, world.pool, nodes)
        assert len(pods) > nodes
        for count in (1, 2, 3, 4, 8):
            template = claim_template(f"gpus-{count}", count)
            template["metadata"]["namespace"] = namespace
            await client.create(template)
        chance.shuffle(pods)
        for manifest in pods:
            await create_pod(client, namespace, manifest)

        async def all_bound():
            return not await unbound(client, namespace)

        await eventually(all_bound)
        for _ in range(3):
            again = chance.sample(pods, k=max(len(pods) // 2, 1))
            for manifest in again:
                await client.delete(resources.PODS, manifest["metadata"]["name"], namespace)
            chance.shuffle(again)
            for manifest in again:
                await create_pod(client, namespace, manifest)
            await eventually(all_bound)
        for manifest in pods:
            await client.delete(resources.PODS, manifest["metadata"]["name"], namespace)


async def test_what_is_refused_could_strand_a_pod(client, namespace):
    """Two nodes with eight devices, a single one taken of each: fourteen are free, and eight do not fit."""
    held: list[Any] = []
    for at in range(2):
        [assignment] = schedule(fleet("p", 2, held), wanted(at, 1, 0)).assignments
        held.append(Replica("ml-team", f"s{at}", f"uid-{at}", f"s{at}", "here", at, assignment.engines))
    assert schedule(fleet("p", 2, held), wanted(9, 8, 0)).assignments == ()

    async with Nodes(client, "stranding", 2) as world:
        for count in (1, 8):
            template = claim_template(f"gpus-{count}", count)
            template["metadata"]["namespace"] = namespace
            await client.create(template)
        for name in ("first", "second"):
            await create_pod(client, namespace, pod(name, world.pool, 1, "apart"))

        async def small_ones_bound():
            return not await unbound(client, namespace)

        await eventually(small_ones_bound)
        await create_pod(client, namespace, pod("large", world.pool, 8, "large"))

        async def refused():
            large = await client.get(resources.PODS, "large", namespace)
            conditions = large.get("status", {}).get("conditions", ())
            return [each["reason"] for each in conditions if each["type"] == "PodScheduled"] == [
                "Unschedulable"
            ]

        assert await eventually(refused)
        for name in ("first", "second", "large"):
            await client.delete(resources.PODS, name, namespace)
