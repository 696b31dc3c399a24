"""The controllers on a real control plane whose backend is KServe, with a stand-in of KServe's controller."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from modelplane.api.crd import crd
from modelplane.api.kinds import KINDS
from modelplane.compose.readiness import condition_of
from modelplane.controllers import fleet_resources
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.local import applying, cluster_objects, permissions
from modelplane.proxy.directory import GatewayDirectory
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.kserve import SERVICES, KServe
from support.patience import PATIENCE_S
from support.third_party_crds import definitions

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

TEAM = "kserve-team"


async def eventually(check: Callable[[], Awaitable[bool]], timeout_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not await check():
            await asyncio.sleep(0.05)


def _of(kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _fleet(kubeconfig: bytes, backend: str) -> list[dict[str, Any]]:
    device = {
        "name": "gpu",
        "driver": "test.example",
        "deviceClassName": "test.example",
        "capacity": {"memory": {"value": "24Gi"}},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kserve-kubeconfig", "namespace": "modelplane-system"},
        "data": {"kubeconfig": base64.b64encode(kubeconfig).decode()},
    }
    gateway = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "inference-gateway", "namespace": "modelplane-system"},
        "spec": {
            "gatewayClassName": "modelplane",
            "listeners": [{"name": "http", "port": 8081, "protocol": "HTTP"}],
        },
    }
    cluster = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "kserve-kubeconfig"}}},
        "servingStack": {"profile": "None", "backend": backend},
        "nodePools": [{"name": "pool", "className": "kserve", "nodeCount": 8}],
    }
    return [
        _of("InferenceClass", "kserve", {"devices": [device]}),
        _of("InferenceGateway", "default", {"backend": "Envoy"}),
        secret,
        gateway,
        _of("InferenceCluster", "kserve", cluster),
    ]


def _deployment(replicas: int = 1, image: str = "vllm/vllm-openai:v0.23.0") -> dict[str, Any]:
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]},
        "template": {
            "spec": {"containers": [{"name": "engine", "image": image, "args": ["--model=Qwen/Qwen3-0.6B"]}]}
        },
    }
    spec = {"replicas": replicas, "engines": [{"name": "engine", "members": [member]}]}
    return _of("ModelDeployment", "model", spec, TEAM)


class Bench:
    """An administrator's hands, with KServe beside."""

    def __init__(self, client: Client, kserve: KServe) -> None:
        self.client = client
        self.kserve = kserve

    async def found(self, resource: resources.Resource) -> list[dict[str, Any]]:
        return list((await self.client.list(resource, TEAM)).items)

    async def count(self, resource: resources.Resource, wanted: int) -> list[dict[str, Any]]:
        async def reached() -> bool:
            return len(await self.found(resource)) == wanted

        await eventually(reached)
        return await self.found(resource)

    async def serve(self, ready: bool = True) -> None:
        """Report every pod as ready or not, as a kubelet would."""

        async def some_pod() -> bool:
            return bool(await self.found(resources.PODS))

        await eventually(some_pod)
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        for pod in await self.found(resources.PODS):
            await self.client.patch(
                resources.PODS,
                pod["metadata"]["name"],
                {"status": {"phase": "Running", "conditions": conditions}},
                TEAM,
                kind="strategic",
                subresource="status",
            )

    async def condition(self, resource: resources.Resource, type_: str, status: str) -> str:
        """Wait until a condition of the first object of a kind has a status; return its message."""
        said: dict[str, Any] = {}

        async def reached() -> bool:
            for item in (await self.found(resource))[:1]:
                said.update(condition_of(item, type_))
            return said.get("status") == status

        await eventually(reached)
        return str(said.get("message", ""))


@pytest.fixture
async def bench(control_plane: ControlPlane, client: Client) -> AsyncIterator[Bench]:
    kinds = [crd(kind) for kind in KINDS] + cluster_objects.gateway_api() + definitions("kserve")
    for manifest in kinds:
        await client.apply(manifest)
    await applying.until_established(client, [kind["metadata"]["name"] for kind in kinds])
    kubeconfig = control_plane.home.controller_kubeconfig.read_bytes()
    for manifest in [*permissions.manifests(), *_fleet(kubeconfig, "KServe")]:
        await client.apply(manifest)
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    kserve = KServe(client, TEAM)
    running = asyncio.create_task(kserve.run())
    proxy = GatewayDirectory(control_plane.home.envoy, "127.0.0.1:8080", lambda _directory, _files: False)
    async with running_controllers(control_plane, proxy):
        yield Bench(client, kserve)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_the_life_of_a_deployment(control_plane: ControlPlane, bench: Bench) -> None:
    bench.kserve.works = False
    await bench.client.apply(_deployment())
    [service] = await bench.count(SERVICES, 1)
    said = await bench.condition(fleet_resources.MODEL_REPLICAS, "ModelReady", "False")
    assert "check that it runs on the cluster" in said or "being created" in said
    bench.kserve.works = True
    await bench.serve()
    await bench.condition(fleet_resources.MODEL_DEPLOYMENTS, "Ready", "True")
    [endpoint] = await bench.found(fleet_resources.MODEL_ENDPOINTS)
    [route] = await bench.found(resources.HTTP_ROUTES)
    [backend] = route["spec"]["rules"][0]["backendRefs"]
    [pod] = await bench.found(resources.PODS)
    ours = await bench.client.get(resources.SERVICES, backend["name"], TEAM)
    assert ours is not None
    assert ours["spec"]["selector"].items() <= pod["metadata"]["labels"].items()

    await bench.serve(ready=False)
    await bench.condition(fleet_resources.MODEL_REPLICAS, "ModelReady", "False")
    await bench.count(fleet_resources.MODEL_ENDPOINTS, 0)
    await bench.serve()
    await bench.condition(fleet_resources.MODEL_DEPLOYMENTS, "Ready", "True")

    kubeconfig = control_plane.home.controller_kubeconfig.read_bytes()
    for manifest in _fleet(kubeconfig, "Modelplane"):
        await bench.client.apply(manifest)
    await bench.client.apply(_deployment(replicas=2))
    # The new replica has a Deployment of Modelplane's, beside that of KServe.
    await bench.count(resources.DEPLOYMENTS, 2)
    assert [each["metadata"]["uid"] for each in await bench.found(SERVICES)] == [service["metadata"]["uid"]]
    assert endpoint["metadata"]["name"] == ours["metadata"]["name"]

    await bench.client.delete(fleet_resources.MODEL_DEPLOYMENTS, "model", TEAM)
    for resource in (SERVICES, resources.DEPLOYMENTS, fleet_resources.MODEL_ENDPOINTS, resources.HTTP_ROUTES):
        await bench.count(resource, 0)
