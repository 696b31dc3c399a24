"""A slow or dead cluster holds up nobody else.

Every cluster of the fleet is the same API server, each reached over a relay of its own.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from urllib.parse import urlsplit

import pytest
import yaml

from modelplane.api import labels
from modelplane.api.schema.crd import crd
from modelplane.compose.kinds import COMPOSED
from modelplane.compose.readiness import is_true
from modelplane.controllers import fleet_resources
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes import cluster_objects
from modelplane.local.kubernetes.cluster_objects import wait_until_established
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.patience import PATIENCE_S
from support.relays import Manner, Relay

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

LATE_S = 8.0
"""Less than a client waits for an answer, and far more than a reconcile of the others takes."""
TEAM = "slow-clusters"
HEALTHY = ("well-1", "well-2", "well-3", "well-4")
ILL = {"ill-refusing": Manner.REFUSES, "ill-silent": Manner.SILENT, "ill-slow": Manner.SLOW}
CLUSTERS = (*HEALTHY, *ILL)


def _ours(kind: str, name: str, spec: Object, namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _deployment(name: str) -> Object:
    """Return a deployment that puts a replica on each of the clusters."""
    selector = 'device.capacity["test.example"].memory.compareTo(quantity("1Gi")) >= 0'
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": selector}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
    }
    spec = {
        "replicas": len(CLUSTERS),
        "clusterSelector": {"matchLabels": {"test": TEAM}},
        "engines": [{"name": "main", "members": [member]}],
    }
    return _ours("ModelDeployment", name, spec, TEAM)


class Fleet:
    """Seven clusters, and an administrator's hands on them."""

    def __init__(self, control_plane: ControlPlane, client: Client, relays: dict[str, Relay]) -> None:
        self.client = client
        self._control_plane = control_plane
        self._relays = relays

    async def fall_ill(self) -> None:
        for name, manner in ILL.items():
            await self._relays[name].behave(manner)

    async def recover(self) -> None:
        for name in ILL:
            await self._relays[name].behave(Manner.PASSES)

    def controllers(self) -> AbstractAsyncContextManager[None]:
        """Run the controllers."""
        return running_controllers(self._control_plane)

    async def deploy(self, name: str) -> None:
        await self.client.apply(_deployment(name))

    async def composed_s(self, name: str, on: tuple[str, ...]) -> float:
        """Return after how many seconds the replicas of a deployment on some clusters are composed."""
        began = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            while await self._composed(name) < set(on):
                await asyncio.sleep(0.05)
        return time.monotonic() - began

    async def _composed(self, name: str) -> set[str]:
        mine = f"{labels.DEPLOYMENT}={name}"
        replicas = (await self.client.list(fleet_resources.MODEL_REPLICAS, TEAM, labels=mine)).items
        done = [each for each in replicas if is_true(each, "Synced") and is_true(each, "ModelAccepted")]
        return {each["spec"]["clusterName"] for each in done}

    async def ready(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not await self._ready():
                await asyncio.sleep(0.05)

    async def _ready(self) -> bool:
        found = (await self.client.list(fleet_resources.INFERENCE_CLUSTERS, labels=f"test={TEAM}")).items
        return all(is_true(each, "Ready") for each in found)


def _registered(control_plane: ControlPlane, name: str, relay: Relay) -> list[Object]:
    config = yaml.safe_load(control_plane.home.controller_kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{relay.port}"
    spec = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": f"{TEAM}-{name}"}}},
        "servingStack": {"profile": "None"},
        "nodePools": [{"name": "pool", "className": TEAM, "nodeCount": 8}],
    }
    cluster = _ours("InferenceCluster", name, spec)
    cluster["metadata"]["labels"] = {"test": TEAM}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{TEAM}-{name}", "namespace": "modelplane-system"},
            "data": {"kubeconfig": base64.b64encode(yaml.safe_dump(config).encode()).decode()},
        },
        cluster,
    ]


async def _prepare(client: Client) -> None:
    kinds = [crd(kind) for kind in COMPOSED] + cluster_objects.load_gateway_api()
    for manifest in kinds:
        await client.apply(manifest)
    await wait_until_established(client, [kind["metadata"]["name"] for kind in kinds])
    device = {
        "name": "gpu",
        "driver": "test.example",
        "deviceClassName": "test.example",
        "capacity": {"memory": {"value": "24Gi"}},
    }
    for manifest in (
        *cluster_objects.build_manifests(),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}},
        _ours("InferenceClass", TEAM, {"devices": [device]}),
        *cluster_objects.build_gateway(8081),
    ):
        await client.apply(manifest)
    address = {"status": {"addresses": [{"type": "IPAddress", "value": "127.0.0.1"}]}}
    await client.patch(
        resources.GATEWAYS, "inference-gateway", address, "modelplane-system", subresource="status"
    )


@pytest.fixture
async def fleet(control_plane: ControlPlane, client: Client) -> AsyncIterator[Fleet]:
    await _prepare(client)
    config = yaml.safe_load(control_plane.home.controller_kubeconfig.read_text())
    upstream = urlsplit(config["clusters"][0]["cluster"]["server"]).port
    assert upstream is not None
    async with AsyncExitStack() as stack:
        relays = {name: await stack.enter_async_context(Relay(upstream, LATE_S)) for name in CLUSTERS}
        for name, relay in relays.items():
            for manifest in _registered(control_plane, name, relay):
                await client.apply(manifest)
        made = Fleet(control_plane, client, relays)
        yield made
        await made.recover()
        async with made.controllers():
            await _remove(client)


async def _remove(client: Client) -> None:
    for each in (await client.list(fleet_resources.MODEL_DEPLOYMENTS, TEAM)).items:
        await client.delete(fleet_resources.MODEL_DEPLOYMENTS, each["metadata"]["name"], TEAM)
    async with asyncio.timeout(PATIENCE_S):
        while (await client.list(fleet_resources.MODEL_REPLICAS, TEAM)).items:
            await asyncio.sleep(0.2)
        for name in CLUSTERS:
            await client.delete(fleet_resources.INFERENCE_CLUSTERS, name)
            await client.delete(resources.SECRETS, f"{TEAM}-{name}", "modelplane-system")
        while (await client.list(fleet_resources.INFERENCE_CLUSTERS, labels=f"test={TEAM}")).items:
            await asyncio.sleep(0.2)
    await client.delete(fleet_resources.INFERENCE_CLASSES, TEAM)


@pytest.mark.parametrize("restarted", [False, True], ids=["while they run", "when they start"])
async def test_clusters_that_fall_ill_hold_up_no_other(fleet: Fleet, restarted: bool) -> None:
    async with AsyncExitStack() as running:
        await running.enter_async_context(fleet.controllers())
        await fleet.ready()
        if restarted:
            await running.aclose()
            await fleet.deploy("before")
            await running.enter_async_context(fleet.controllers())
        else:
            await fleet.deploy("before")
        well_s = await fleet.composed_s("before", CLUSTERS)

        if restarted:
            await running.aclose()
            await fleet.fall_ill()
            await fleet.deploy("after")
            await running.enter_async_context(fleet.controllers())
        else:
            await fleet.fall_ill()
            await fleet.deploy("after")
        ill_s = await fleet.composed_s("after", HEALTHY)
        # Who waits for a single answer of the slow cluster, or for the silent one, takes longer than that.
        assert ill_s < well_s + LATE_S
        assert await fleet._composed("after") == set(HEALTHY), "the others could not be"
