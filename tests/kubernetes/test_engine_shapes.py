"""Whole lives on a real control plane: deployments with connectors, and with containers beside the engine."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.controllers import fleet_resources
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.local.kubernetes import cluster_objects
from modelplane.proxy.proxies import GatewayDirectory
from support.controllers import running_controllers
from support.engine_shapes import WORDS, edited, shapes
from support.fleets import ControlPlane
from support.kinds import create_missing
from support.patience import eventually
from support.serving_bench import Bench, fleet_of, of

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

TEAM = "ml-team"
SHAPES = shapes({"name": "gpu", "selectors": [{"cel": "true"}]})
POOLS = resources.Resource("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools")


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: other modules leave clusters on the common one."""
    return own_control_plane


@pytest.fixture
async def bench(control_plane: ControlPlane, client: Client) -> AsyncIterator[Bench]:
    kinds = [
        *(crd(kind) for kind in KINDS),
        *cluster_objects.load_gateway_api(),
        *cluster_objects.load_inference_extension(),
    ]
    await create_missing(client, kinds)
    kubeconfig = control_plane.home.controller_kubeconfig.read_bytes()
    for manifest in [*cluster_objects.build_manifests(), *fleet_of(kubeconfig, "Modelplane")]:
        await client.apply(manifest)
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    proxy = GatewayDirectory(control_plane.home.envoy, "127.0.0.1:8080", lambda _directory, _files: False)
    async with running_controllers(control_plane, proxy):
        yield Bench(client, TEAM)


def _deployment(spec: dict[str, Any]) -> dict[str, Any]:
    return of("ModelDeployment", "model", {"replicas": 1, **spec}, TEAM)


async def test_they_serve_take_an_edit_and_leave_nothing(bench: Bench) -> None:
    for shape, spec in SHAPES.items():
        await _life(bench, shape, spec)


async def _life(bench: Bench, shape: str, spec: dict[str, Any]) -> None:
    async def composed() -> bool:
        templates = await _templates(bench)
        return all(word in templates for word in WORDS[shape])

    async def is_edited() -> bool:
        return (await _templates(bench)).count("--served-model-name=edited") == len(spec["engines"])

    async def is_ready() -> bool:
        await bench.serve()
        [model] = await bench.found(fleet_resources.MODEL_DEPLOYMENTS)
        conditions = model.get("status", {}).get("conditions", ())
        return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)

    await bench.client.apply(_deployment(spec))
    await eventually(composed)
    await eventually(is_ready)
    assert await bench.found(resources.HTTP_ROUTES) != []
    assert bool(await bench.found(POOLS)) == ("serving" in spec)

    await bench.client.apply(_deployment(edited(spec)))
    await eventually(is_edited)
    await eventually(is_ready)
    assert await composed()

    await bench.client.delete(fleet_resources.MODEL_DEPLOYMENTS, "model", TEAM)
    for resource in (
        fleet_resources.MODEL_DEPLOYMENTS,
        fleet_resources.MODEL_REPLICAS,
        fleet_resources.MODEL_ENDPOINTS,
        resources.DEPLOYMENTS,
        resources.HTTP_ROUTES,
        POOLS,
        resources.PODS,
    ):
        await bench.count(resource, 0)


async def _templates(bench: Bench) -> str:
    return str([each["spec"]["template"] for each in await bench.found(resources.DEPLOYMENTS)])
