"""What a fresh control plane needs to be a fleet of one.

The kinds, the identities' permissions, and this machine published as hardware:
an InferenceClass of the devices found here, an InferenceCluster that offers
them, and the InferenceGateway. Everything is applied, so doing it again changes
nothing; what a user changed in the class, the cluster or the gateway stays.
"""

import asyncio
import base64
import importlib.resources
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import yaml

from modelplane.api.crd import crd
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.kinds import COMPOSED
from modelplane.compose.readiness import is_true
from modelplane.controllers.front_door import GATEWAY_CLASS
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource, resource_of
from modelplane.local import permissions, ports
from modelplane.local.agent.devices import DiscoveredDevice, discover
from modelplane.local.home import Home
from modelplane.routing.http_routes import GATEWAY_NAME

CLUSTER = "local"
"""The name of this machine's InferenceCluster, of its class and of its one pool."""

_ESTABLISHED_S = 30.0
_READY_S = 60.0
_TOGETHER = 4

# The one in C is ten times as fast, and not in every build of the library.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Report = Callable[[str], None]


async def install(client: Client, home: Home, report: Report) -> None:
    """Make the control plane a fleet, and return when it is ready for a model."""
    report("Installing the kinds")
    # A kind that nobody composes here would only raise hopes.
    kinds = [crd(kind) for kind in COMPOSED] + gateway_api()
    # The identities first: the controllers wait for their permissions, then for the kinds.
    await _apply_all(client, permissions.manifests())
    await _apply_together(client, kinds)
    await until_established(client, [kind["metadata"]["name"] for kind in kinds])
    report("Publishing this machine")
    chosen = ports.load(home.settings)
    devices = discover()
    await _apply_together(client, _system(home, chosen.workload_gateway, devices))
    await _create_missing(client, _defaults(devices))
    report("Waiting for the fleet")
    await _until_ready(client)


def gateway_api() -> list[Object]:
    """Return the CustomResourceDefinitions of the Gateway API that replicas' routes need."""
    folder = importlib.resources.files("modelplane.local") / "crds" / "gateway-api"
    return [
        yaml.load(file.read_bytes(), _LOADER)  # noqa: S506 - a safe loader, whichever of the two
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    ]


async def _apply_all(client: Client, manifests: Iterable[Mapping[str, Any]]) -> None:
    for manifest in manifests:
        await client.apply(manifest)


async def _apply_together(client: Client, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Apply manifests that do not need one another."""
    room = asyncio.Semaphore(_TOGETHER)

    async def apply(manifest: Mapping[str, Any]) -> None:
        async with room:
            await client.apply(manifest)

    await _all(apply(manifest) for manifest in manifests)


async def _create_missing(client: Client, manifests: Iterable[Mapping[str, Any]]) -> None:
    async def create(manifest: Mapping[str, Any]) -> None:
        if await client.get(resource_of(manifest), manifest["metadata"]["name"]) is None:
            # Applied: a plain create of a kind that has just been installed is held up for two
            # seconds, so that every API server of a cluster knows the kind by then.
            await client.apply(manifest)

    await _all(create(manifest) for manifest in manifests)


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do everything at once; raise the first failure once nothing is under way any more."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def until_established(client: Client, names: list[str]) -> None:
    """Return once the API server serves every named CustomResourceDefinition."""
    waiting = set(names)
    async with asyncio.timeout(_ESTABLISHED_S):
        while True:
            found = (await client.list(resources.CUSTOM_RESOURCE_DEFINITIONS)).items
            waiting -= {item["metadata"]["name"] for item in found if is_true(item, "Established")}
            if not waiting:
                return
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
    return found is None or is_true(found, "Ready")


async def _node_ready(client: Client) -> bool:
    nodes = (await client.list(resources.NODES)).items
    return any(is_true(node, "Ready") for node in nodes)
