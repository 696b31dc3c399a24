"""Traefik and MetalLB are installed, serve and are removed for an InferenceGateway, with stand-in charts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from modelplane.api.inference_gateway import Backend
from modelplane.compose.gateway import installed_gateway
from modelplane.compose.gateway.installed_gateway import INSTALLER
from modelplane.compose.readiness import condition_of
from modelplane.compose.releases import Chart
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.helm.helm_program import Program
from modelplane.gateway.usage.ledger import Ledger
from modelplane.gateway.usage.load import Load
from modelplane.install import cluster_requirements
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes import cluster_objects
from modelplane.proxy.interface import GatewayAddress
from support import kinds
from support.charts import Repository, pack
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.patience import PATIENCE_S
from support.service_accounts import kubeconfig, kubectl

pytestmark = [
    pytest.mark.kubernetes,
    # Controllers that stop while they connect leave a connection to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

SYSTEM = "modelplane-system"
GATEWAYS = resource_for("modelplane.ai/v1alpha1", "InferenceGateway")
ADDRESS = "172.18.255.200"
ENVOY = "192.0.2.10"
OF_GATEWAY = (
    (resources.HTTP_ROUTES, SYSTEM),
    (resources.GATEWAYS, SYSTEM),
    (resource_for("gateway.networking.k8s.io/v1", "GatewayClass"), None),
)
POOLS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.metallb.io}}
spec:
  group: metallb.io
  names: {{kind: {kind}, plural: {plural}}}
  scope: Namespaced
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"""
KEPT = """\
{{- if .Values.gatewayAPI }}
{{- range $path, $_ := .Files.Glob "files/*.yaml" }}
---
{{ $.Files.Get $path }}
{{- end }}
{{- end }}
"""
OBJECTS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {provider: {{ .Values.providers.kubernetesGateway.enabled | quote }}}
{{- range .Values.extraObjects }}
---
{{ toYaml . }}
{{- end }}
"""


def _definitions() -> dict[str, str]:
    """Return the real definitions of the Gateway API as files of a chart that keeps them."""
    files = {}
    for definition in cluster_objects.load_gateway_api():
        kept = {"helm.sh/resource-policy": "keep"}
        annotations = {**definition["metadata"].get("annotations", {}), **kept}
        metadata = {**definition["metadata"], "annotations": annotations}
        files[f"files/{metadata['name']}.yaml"] = yaml.safe_dump({**definition, "metadata": metadata})
    return files


@pytest.fixture
def charts(kubernetes_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """Charts of the names that are installed, from the loopback interface."""
    crds = {
        f"crds/{plural}.yaml": POOLS.format(kind=kind, plural=plural)
        for kind, plural in (("IPAddressPool", "ipaddresspools"), ("L2Advertisement", "l2advertisements"))
    }
    packed = (
        pack(
            kubernetes_binary,
            tmp_path,
            "traefik-crds",
            "1.18.0",
            {"templates/all.yaml": KEPT} | _definitions(),
        ),
        pack(kubernetes_binary, tmp_path, "metallb", "0.14.9", crds),
        pack(kubernetes_binary, tmp_path, "traefik", "41.3.0", {"templates/all.yaml": OBJECTS}),
    )
    with Repository(*packed).serving() as serving:
        address = f"http://{serving.host}/charts"
        for name in ("DEFINITIONS_CHART", "METALLB_CHART"):
            chart: Chart = getattr(installed_gateway, name)
            monkeypatch.setattr(installed_gateway, name, chart._replace(repository=address))
        rows = installed_gateway.IMPLEMENTATIONS
        row = rows[Backend.TRAEFIK]
        monkeypatch.setitem(rows, Backend.TRAEFIK, replace(row, chart=row.chart._replace(repository=address)))
        yield serving


class Envoy:
    """Envoy behind a Service with an address."""

    listens = ("0.0.0.0", 8080)
    serves_clusters = False
    usage_log = ""
    gateways = 1
    ledger_log = ""
    informers = ()

    async def bring(self, _files: Mapping[str, str]) -> bool:
        return False

    def list_formers(self, _folder: str) -> tuple[str, ...]:
        return ()

    def find_former_problem(self) -> str:
        return ""

    def read_former(self, _path: str) -> str:
        return ""

    async def load(self) -> Load:
        return Load()

    async def sum_usage(self) -> Ledger | None:
        return None

    def find_address(self) -> GatewayAddress:
        return GatewayAddress(ENVOY)


async def _until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await check():
            await asyncio.sleep(0.05)


class Bench:
    """The control plane with an InferenceGateway, and the test in the part of Traefik."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def gateway(self) -> Object:
        return await self._client.get(GATEWAYS, "default") or {}

    async def said(self, *parts: str) -> None:
        async def holds() -> bool:
            found = condition_of(await self.gateway(), "ControllerReady")
            return all(part in str(found) for part in parts)

        await _until(holds)

    async def serve(self) -> None:
        """Report the Gateway's address, and accept the route."""

        async def there() -> bool:
            try:
                return await self._client.get(resources.HTTP_ROUTES, "modelplane", SYSTEM) is not None
            except errors.ApiError:
                return False  # not installed yet

        async def made() -> bool:
            try:
                return await self._client.get(resources.GATEWAYS, "modelplane", SYSTEM) is not None
            except errors.ApiError:
                return False

        await _until(made)
        status: Object = {"status": {"addresses": [{"type": "IPAddress", "value": ADDRESS}]}}
        await self._client.patch(resources.GATEWAYS, "modelplane", status, SYSTEM, subresource="status")
        await _until(there)
        accepted = {
            "type": "Accepted",
            "status": "True",
            "reason": "Accepted",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        parent = {
            "parentRef": {"name": "modelplane"},
            "controllerName": "traefik.io/gateway-controller",
            "conditions": [accepted],
        }
        status = {"status": {"parents": [parent]}}
        await self._client.patch(resources.HTTP_ROUTES, "modelplane", status, SYSTEM, subresource="status")

    async def left(self) -> list[str]:
        """Return what is installed, and what the gateway consists of."""
        names = []
        for resource, namespace in OF_GATEWAY:
            items = (await self._client.list(resource, namespace)).items
            names += [f"{resource.plural}/{item['metadata']['name']}" for item in items]
        records = (await self._client.list(resources.SECRETS, labels="owner=helm")).items
        return names + [item["metadata"]["labels"]["name"] for item in records]


@pytest.mark.usefixtures("charts")
async def test_traefik_is_installed_serves_and_is_removed_in_order(
    own_control_plane: ControlPlane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plane = own_control_plane
    caplog.set_level(logging.INFO, "modelplane.controllers.helm.cluster_releases")
    async with Client.from_kubeconfig(str(plane.kubeconfig), known=fleet_resources.find_known) as client:
        await kinds.install(client)
        for manifest in (
            *cluster_objects.build_fleet_roles(),
            *cluster_requirements.build_manifests(installer=True),
        ):
            await client.apply(manifest)
        traefik = {
            "version": "41.3.0",
            "loadBalancer": "MetalLB",
            "metallb": {"addressPool": f"{ADDRESS}/32"},
        }
        await client.apply(
            {
                "apiVersion": GATEWAYS.api_version,
                "kind": GATEWAYS.kind,
                "metadata": {"name": "default"},
                "spec": {"backend": "Traefik", "traefik": traefik},
            }
        )
        bench = Bench(client)
        async with running_controllers(plane, Envoy(), Program((str(plane.binary), "helm"))):
            await bench.said(f"Envoy accepts requests at {ENVOY}", f'requires Secret "{INSTALLER}"')
            file = kubeconfig(plane, INSTALLER, tmp_path / "installer")
            kubectl(
                plane,
                "create",
                "secret",
                "generic",
                INSTALLER,
                "-n",
                SYSTEM,
                f"--from-file=kubeconfig={file}",
            )
            await bench.serve()
            await bench.said(f"Traefik accepts requests at {ADDRESS}, and Envoy routes them")
            gateway = await bench.gateway()
            assert (gateway["status"]["address"], gateway["status"]["backend"]) == (ADDRESS, "Envoy")
            pools = kubectl(
                plane, "get", "ipaddresspools,l2advertisements", "-n", "metallb-system", "-o", "name"
            )
            assert pools.split() == [
                "ipaddresspool.metallb.io/modelplane",
                "l2advertisement.metallb.io/modelplane",
            ]
            await client.delete(GATEWAYS, "default", uid=gateway["metadata"]["uid"])

            async def gone() -> bool:
                return not await bench.gateway()

            await _until(gone)
        assert await bench.left() == []
        assert await client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, installed_gateway.DEFINITION), (
            "routes of others would be deleted with it"
        )
    said = [each.getMessage() for each in caplog.records if each.levelno == logging.INFO]
    done = [(line.split()[5], line.split('"')[1]) for line in said]
    names = ["mp-traefik-crds", "mp-metallb", "mp-traefik"]
    assert sorted(done[:2]) == sorted(("Installing", name) for name in names[:2])
    assert done[2:] == [
        ("Installing", names[2]),
        ("Uninstalling", names[2]),
        *(("Uninstalling", name) for _, name in reversed(done[:2])),
    ]
