"""The controllers on a real control plane whose backend is KServe, with a stand-in of KServe's controller."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.compose.readiness import is_true
from modelplane.controllers import fleet_resources
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.local.kubernetes import cluster_objects
from modelplane.proxy.proxies import GatewayDirectory
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.kinds import create_missing
from support.kserve import SERVICES, KServe
from support.patience import eventually
from support.serving_bench import Bench, fleet_of, of
from support.third_party_crds import definitions

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

TEAM = "kserve-team"


def _deployment(replicas: int = 1, image: str = "vllm/vllm-openai:v0.23.0") -> dict[str, Any]:
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]},
        "template": {
            "spec": {"containers": [{"name": "engine", "image": image, "args": ["--model=Qwen/Qwen3-0.6B"]}]}
        },
    }
    spec = {"replicas": replicas, "engines": [{"name": "engine", "members": [member]}]}
    return of("ModelDeployment", "model", spec, TEAM)


class KServeBench(Bench):
    """One with KServe beside."""

    def __init__(self, client: Client, kserve: KServe) -> None:
        super().__init__(client, TEAM)
        self.kserve = kserve

    async def until_served(self) -> None:
        """Report every pod as ready, also one that comes in the place of another, until the model serves."""

        async def is_ready() -> bool:
            await self.serve()
            [deployment] = await self.found(fleet_resources.MODEL_DEPLOYMENTS)
            return is_true(deployment, "Ready")

        await eventually(is_ready)


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: other modules leave clusters on the common one."""
    return own_control_plane


@pytest.fixture
async def bench(control_plane: ControlPlane, client: Client) -> AsyncIterator[KServeBench]:
    kinds = [crd(kind) for kind in KINDS] + cluster_objects.load_gateway_api() + definitions("kserve")
    await create_missing(client, kinds)
    kubeconfig = control_plane.home.controller_kubeconfig.read_bytes()
    for manifest in [*cluster_objects.build_manifests(), *fleet_of(kubeconfig, "KServe")]:
        await client.apply(manifest)
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    kserve = KServe(client, TEAM)
    running = asyncio.create_task(kserve.run())
    proxy = GatewayDirectory(control_plane.home.envoy, "127.0.0.1:8080", lambda _directory, _files: False)
    async with running_controllers(control_plane, proxy):
        yield KServeBench(client, kserve)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_the_life_of_a_deployment(control_plane: ControlPlane, bench: KServeBench) -> None:
    bench.kserve.works = False
    await bench.client.apply(_deployment())
    [service] = await bench.count(SERVICES, 1)

    async def is_told() -> bool:
        said = await bench.condition(fleet_resources.MODEL_REPLICAS, "ModelReady", "False")
        return "check that the controller is running on the cluster" in said or "being created" in said

    await eventually(is_told)
    bench.kserve.works = True
    await bench.until_served()
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
    await bench.until_served()

    kubeconfig = control_plane.home.controller_kubeconfig.read_bytes()
    for manifest in fleet_of(kubeconfig, "Modelplane"):
        await bench.client.apply(manifest)

    async def backend_is_seen() -> bool:
        cluster = await bench.client.get(fleet_resources.INFERENCE_CLUSTERS, "kserve")
        assert cluster is not None
        return bool(cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"])

    # Else the deployment may be seen first, and its new replica be one of KServe's.
    await eventually(backend_is_seen)
    await bench.client.apply(_deployment(replicas=2))
    # The new replica has a Deployment of Modelplane's, beside that of KServe.
    await bench.count(resources.DEPLOYMENTS, 2)
    assert [each["metadata"]["uid"] for each in await bench.found(SERVICES)] == [service["metadata"]["uid"]]
    assert endpoint["metadata"]["name"] == ours["metadata"]["name"]

    await bench.client.delete(fleet_resources.MODEL_DEPLOYMENTS, "model", TEAM)
    for resource in (SERVICES, resources.DEPLOYMENTS, fleet_resources.MODEL_ENDPOINTS, resources.HTTP_ROUTES):
        await bench.count(resource, 0)
