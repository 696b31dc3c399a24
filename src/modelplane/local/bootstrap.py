"""What a fresh control plane needs to be a fleet of one.

The kinds, the identities' permissions, and this machine published as hardware:
an InferenceClass of the devices found here, an InferenceCluster that offers
them, and the InferenceGateway. Everything is applied, so doing it again changes
nothing; what a user changed in the class, the cluster or the gateway stays.
"""

import asyncio
import base64
import importlib.resources
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import yaml

from modelplane.api.crd import crd
from modelplane.api.kinds import KINDS
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.model_replica import GATEWAY_NAME
from modelplane.compose.readiness import condition_of, holds
from modelplane.controllers.front_door import GATEWAY_CLASS
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource, resource_of
from modelplane.local import permissions, ports
from modelplane.local.agent.devices import DiscoveredDevice, discover
from modelplane.local.home import Home

CLUSTER = "local"
"""The name of this machine's InferenceCluster, of its class and of its one pool."""

_ESTABLISHED_S = 30.0
_READY_S = 60.0

Report = Callable[[str], None]


async def install(client: Client, home: Home, report: Report) -> None:
    """Make the control plane a fleet, and return when it is ready for a model."""
    report("Installing the kinds")
    kinds = [crd(kind) for kind in KINDS] + gateway_api()
    await _apply_all(client, kinds)
    await until_established(client, [kind["metadata"]["name"] for kind in kinds])
    report("Publishing this machine")
    chosen = ports.load(home.settings)
    await _apply_all(client, permissions.manifests())
    devices = discover()
    await _apply_all(client, _system(home, chosen.workload_gateway, devices))
    for manifest in _defaults(devices):
        await _create_missing(client, manifest)
    report("Waiting for the fleet")
    await _until_ready(client)


def gateway_api() -> list[Object]:
    """Return the CustomResourceDefinitions of the Gateway API that replicas' routes need."""
    folder = importlib.resources.files("modelplane.local") / "crds" / "gateway-api"
    return [
        yaml.safe_load(file.read_text())
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    ]


async def _apply_all(client: Client, manifests: Iterable[Mapping[str, Any]]) -> None:
    for manifest in manifests:
        await client.apply(manifest)


async def _create_missing(client: Client, manifest: Mapping[str, Any]) -> None:
    if await client.get(resource_of(manifest), manifest["metadata"]["name"]) is None:
        await client.create(manifest)


async def until_established(client: Client, names: list[str]) -> None:
    """Return once the API server serves every named CustomResourceDefinition."""
    async with asyncio.timeout(_ESTABLISHED_S):
        for name in names:
            while True:
                found = await client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name)
                if found is not None and holds(found, "Established"):
                    break
                await asyncio.sleep(0.05)


def _system(home: Home, workload_port: int, devices: tuple[DiscoveredDevice, ...]) -> list[Object]:
    kubeconfig = base64.b64encode(home.controller_kubeconfig.read_bytes()).decode()
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{CLUSTER}-kubeconfig", "namespace": SYSTEM_NAMESPACE},
            "data": {"kubeconfig": kubeconfig},
        },
        *(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": driver},
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
            }
            for driver in sorted({device.driver for device in devices})
        ),
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": GATEWAY_CLASS},
            "spec": {"controllerName": "modelplane.ai/envoy"},
        },
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": GATEWAY_NAME, "namespace": SYSTEM_NAMESPACE},
            "spec": {
                "gatewayClassName": GATEWAY_CLASS,
                "listeners": [
                    {
                        "name": "http",
                        "port": workload_port,
                        "protocol": "HTTP",
                        "allowedRoutes": {"namespaces": {"from": "All"}},
                    }
                ],
            },
        },
    ]


def _defaults(devices: tuple[DiscoveredDevice, ...]) -> list[Object]:
    """Return what is only created, never changed: from then on it is the platform team's."""
    return [
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceClass",
            "metadata": {"name": CLUSTER},
            "spec": {"description": "This machine", "devices": inference_devices(devices)},
        },
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": CLUSTER, "labels": {"modelplane.ai/region": CLUSTER}},
            "spec": {
                "cluster": {
                    "source": "Existing",
                    "existing": {"secretRef": {"name": f"{CLUSTER}-kubeconfig", "key": "kubeconfig"}},
                },
                "servingStack": {"profile": "None"},
                "nodePools": [{"name": CLUSTER, "className": CLUSTER, "nodeCount": 1}],
            },
        },
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceGateway",
            "metadata": {"name": "default"},
            "spec": {"backend": "Envoy"},
        },
    ]


def inference_devices(devices: tuple[DiscoveredDevice, ...]) -> list[Object]:
    """Return the devices of a class, one entry for each run of devices that are alike."""
    counted: list[tuple[DiscoveredDevice, int]] = []
    for device in devices:
        for place, (known, count) in enumerate(counted):
            if known.kind() == device.kind():
                counted[place] = (known, count + 1)
                break
        else:
            counted.append((device, 1))
    names = [known.driver.split(".")[0] for known, _ in counted]
    return [
        {
            "name": name if names.count(name) == 1 else f"{name}-{place}",
            "driver": known.driver,
            "deviceClassName": known.driver,
            "count": count,
            "attributes": known.kind().attributes,
            "capacity": {key: {"value": value} for key, value in known.kind().capacity.items()},
        }
        for place, (name, (known, count)) in enumerate(zip(names, counted, strict=True))
    ]


async def _until_ready(client: Client) -> None:
    needed = ((resources.INFERENCE_GATEWAYS, "default"), (resources.INFERENCE_CLUSTERS, CLUSTER))
    waiting = "nothing"
    try:
        async with asyncio.timeout(_READY_S):
            for resource, name in needed:
                while not await _is_ready(client, resource, name):
                    waiting = f"{resource.kind} {name}"
                    await asyncio.sleep(0.1)
            while not await _node_ready(client):
                waiting = "the node agent's Node"
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise errors.Unreachable(
            f"{waiting} is not ready after {_READY_S:.0f} s: see `modelplane status`"
        ) from None


async def _is_ready(client: Client, resource: Resource, name: str) -> bool:
    found = await client.get(resource, name)
    # A name that was deleted on purpose is not waited for.
    return found is None or condition_of(found, "Ready").get("status") == "True"


async def _node_ready(client: Client) -> bool:
    nodes = (await client.list(resources.NODES)).items
    return any(condition_of(node, "Ready").get("status") == "True" for node in nodes)
