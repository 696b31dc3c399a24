"""A cluster that exists gets a serving stack of stand-in charts, and a model is placed on it.

The test plays the parts of the gateway's controller and of the nodes.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import yaml

from modelplane.api.clouds.serving_stack import ServingStack, name_stack
from modelplane.api.meta import GATEWAY_NAME
from modelplane.compose.readiness import condition_of, is_true
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import resource_of_kind
from modelplane.controllers.helm.helm_program import Program
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes import cluster_objects
from support import kinds
from support.charts import Repository, pack
from support.controllers import running_controllers
from support.envoys import free_ports
from support.fleets import ControlPlane
from support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.kubernetes,
    # Controllers that stop while they connect leave a connection to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

SYSTEM = "modelplane-system"
TEAM = "ml-team"
STACKS = resource_of_kind(ServingStack)
API = "modelplane.ai/v1alpha1"
POD = "192.0.2.5"
CHARTS = {
    "envoy-gateway": "gateway-helm",
    "node-feature-discovery": "node-feature-discovery",
    "dra-driver": "dra-driver-nvidia-gpu",
}
POLICIES = [
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.gateway.envoyproxy.io"},
        "spec": {
            "group": "gateway.envoyproxy.io",
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    for kind, plural in (
        ("BackendTrafficPolicy", "backendtrafficpolicies"),
        ("ClientTrafficPolicy", "clienttrafficpolicies"),
    )
]
"""Definitions of Envoy Gateway's chart."""
TIME = "2026-01-01T00:00:00Z"
CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
"""


@pytest.fixture
def repository(kubernetes_binary: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a repository with charts of the stack's names; Envoy Gateway's has the definitions."""
    definitions = {
        f"crds/{each['metadata']['name']}.yaml": yaml.safe_dump(each)
        for each in (*cluster_objects.load_gateway_api(), *POLICIES)
    }
    packed = []
    for name in CHARTS.values():
        files = {"templates/settings.yaml": SETTINGS, **(definitions if name == "gateway-helm" else {})}
        packed.append(pack(kubernetes_binary, tmp_path, name, "9.9.9", files))
    with Repository(*packed).serving() as serving:
        yield f"http://{serving.host}/charts"


async def _until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await check():
            await asyncio.sleep(0.05)


class Bench:
    """An administrator, in the parts of the gateway's controller and of the nodes."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def said(self, resource: resources.Resource, name: str, type_: str, *parts: str) -> None:
        namespace = SYSTEM if resource is STACKS else TEAM if resource.namespaced else None

        async def holds() -> bool:
            found = condition_of(await self.client.get(resource, name, namespace) or {}, type_)
            return all(part in str(found) for part in parts)

        await _until(holds)

    async def listed(self, resource: resources.Resource, namespace: str | None) -> list[Object]:
        """Return the objects of a kind, once there are any."""
        found: list[Object] = []

        async def some() -> bool:
            try:
                found[:] = (await self.client.list(resource, namespace)).items
            except errors.ApiError:
                return False  # not installed yet
            return bool(found)

        await _until(some)
        return found

    async def report(self, resource: resources.Resource, item: Object, status: Object) -> None:
        metadata, body = item["metadata"], {"status": status}
        namespace = metadata.get("namespace")
        await self.client.patch(resource, metadata["name"], body, namespace, subresource="status")

    async def run_pods(self) -> None:
        """Report every pod of the team as ready."""
        for pod in await self.listed(resources.PODS, TEAM):
            ready = [{"type": "Ready", "status": "True"}]
            addresses = {"podIP": POD, "podIPs": [{"ip": POD}]}
            await self.report(resources.PODS, pod, {"phase": "Running", "conditions": ready, **addresses})

    async def accept_class(self) -> None:
        """Accept the class of the gateway."""
        found = next(
            each
            for each in await self.listed(resources.GATEWAY_CLASSES, None)
            if each["spec"]["controllerName"] == CONTROLLER
        )
        await self.report(resources.GATEWAY_CLASSES, found, {"conditions": [_holds("Accepted")]})

    async def program_gateway(self) -> None:
        """Report the gateway as programmed, whether or not anything listens."""
        [found] = [
            each
            for each in await self.listed(resources.GATEWAYS, SYSTEM)
            if each["metadata"]["name"] == GATEWAY_NAME
        ]
        address = {"type": "IPAddress", "value": "127.0.0.1"}
        programmed = {"addresses": [address], "conditions": [_holds("Programmed")]}
        await self.report(resources.GATEWAYS, found, programmed)

    async def accept_routes(self, namespace: str = TEAM) -> None:
        """Accept the route of each replica, or the one of the gateway itself."""
        for route in await self.listed(resources.HTTP_ROUTES, namespace):
            parent = {
                "parentRef": {"name": GATEWAY_NAME, "namespace": SYSTEM},
                "controllerName": CONTROLLER,
                "conditions": [_holds("Accepted")],
            }
            await self.report(resources.HTTP_ROUTES, route, {"parents": [parent]})


def _holds(type_: str) -> Object:
    return {"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": TIME}


@asynccontextmanager
async def _proxy(port: int) -> AsyncIterator[None]:
    """Answer as the proxy of the gateway does once it has its own route."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readline()
        status = "302 Found" if asked.startswith(b"GET /modelplane-system/ready ") else "404 Not Found"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port):
        yield


def _fleet(plane: ControlPlane, repository: str) -> list[Object]:
    device = {
        "name": "gpu",
        "driver": "test.example",
        "deviceClassName": "test.example",
        "capacity": {"memory": {"value": "24Gi"}},
    }
    components: list[Object] = [
        {"name": name, "version": "9.9.9", "repository": repository} for name in CHARTS
    ]
    # Its repository has no such chart, and the cluster serves without it.
    components.append({"name": "prometheus", "enabled": True, "repository": repository})
    existing = {"secretRef": {"name": "member"}, "installerSecretRef": {"name": "installer"}}
    return [
        _own("InferenceClass", "gpu", {"devices": [device]}),
        _secret("member", plane.home.controller_kubeconfig),
        _secret("installer", plane.kubeconfig),
        _own(
            "InferenceCluster",
            "member",
            {
                "cluster": {"source": "Existing", "existing": existing},
                "servingStack": {"profile": "Minimal", "components": components},
                "nodePools": [{"name": "pool", "className": "gpu", "nodeCount": 1}],
            },
        ),
    ]


def _own(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _secret(name: str, file: Path) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": SYSTEM},
        "data": {"kubeconfig": base64.b64encode(file.read_bytes()).decode()},
    }


def _model() -> list[Object]:
    selector = 'device.capacity["test.example"].memory.compareTo(quantity("20Gi")) >= 0'
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": selector}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
    }
    spec = {"replicas": 1, "engines": [{"name": "engine", "members": [member]}]}
    deployment = _own("ModelDeployment", "model", spec)
    deployment["metadata"]["namespace"] = TEAM
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}, deployment]


async def test_a_cluster_gets_its_stack_and_a_model_although_an_optional_chart_fails(
    own_control_plane: ControlPlane, repository: str
) -> None:
    plane = own_control_plane
    async with Client.from_kubeconfig(str(plane.kubeconfig), known=fleet_resources.find_known) as client:
        await kinds.install(client)
        for manifest in (*cluster_objects.build_manifests(), *_fleet(plane, repository)):
            await client.apply(manifest)
        bench = Bench(client)
        async with running_controllers(plane, helm=Program((str(plane.binary), "helm"))):
            stack = name_stack("member")
            await bench.listed(STACKS, SYSTEM)
            port = next(free_ports())
            listener = {"name": "http", "port": port, "protocol": "HTTP"}
            spec = {"spec": {"gateway": {"listeners": [listener]}}}
            await client.patch(STACKS, stack, spec, SYSTEM)
            await bench.said(STACKS, stack, "BackendReady", "waiting for", "envoy-gateway")
            await bench.accept_class()
            await bench.program_gateway()
            await bench.accept_routes(SYSTEM)
            await bench.said(
                fleet_resources.INFERENCE_CLUSTERS, "member", "BackendReady", "respond at", str(port)
            )
            async with _proxy(port):
                await bench.said(fleet_resources.INFERENCE_CLUSTERS, "member", "BackendReady", "'True'")
            await bench.said(
                STACKS, name_stack("member"), "BackendReady", "Degraded", "prometheus:", "not found in"
            )
            await bench.said(
                fleet_resources.INFERENCE_CLUSTERS, "member", "BackendReady", "'True'", "prometheus:"
            )
            for manifest in _model():
                await client.apply(manifest)

            async def serves() -> bool:
                with suppress(errors.NotFound):  # one that has been replaced meanwhile
                    await bench.run_pods()
                    await bench.accept_routes()
                found = await client.get(fleet_resources.MODEL_DEPLOYMENTS, "model", TEAM)
                return is_true(found or {}, "Ready")

            await _until(serves)
            [endpoint] = await bench.listed(fleet_resources.MODEL_ENDPOINTS, TEAM)
            url = endpoint["spec"]["url"]
            leads = url.startswith(f"http://127.0.0.1:{port}/ml-team/model-")
            assert leads, "it leads to the gateway of the cluster"
