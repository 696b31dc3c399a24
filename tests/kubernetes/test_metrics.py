"""What a controller tells of itself, asked over HTTP while it reconciles a real control plane."""

import asyncio
import base64
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.controllers import fleet_resources
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes import cluster_objects
from support.collector import Collector, attributes, collecting
from support.fleets import ControlPlane
from support.kinds import create_missing
from support.patience import PATIENCE_S
from support.telemetry import fetch

pytestmark = pytest.mark.kubernetes

NAMESPACE = "metering"
LABELS = {"team": "metered"}
SELECTOR = {"cel": 'device.driver == "test.example"'}


def _fleet(kubeconfig: Path) -> list[Object]:
    device = {"name": "gpu", "driver": "test.example", "deviceClassName": "test.example", "count": 4}
    encoded = base64.b64encode(kubeconfig.read_bytes()).decode()
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "metered-kubeconfig", "namespace": "modelplane-system"},
            "data": {"kubeconfig": encoded},
        },
        _object("InferenceClass", {"devices": [device]}),
        _object(
            "InferenceCluster",
            {
                "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "metered-kubeconfig"}}},
                "servingStack": {"profile": "None"},
                "nodePools": [{"name": "pool", "className": "metered", "nodeCount": 2}],
            },
        ),
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": "inference-gateway", "namespace": "modelplane-system"},
            "spec": {
                "gatewayClassName": "modelplane",
                "listeners": [{"name": "http", "port": 8081, "protocol": "HTTP"}],
            },
        },
    ]


def _object(kind: str, spec: Object, **metadata: str) -> Object:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": kind,
        "metadata": {"name": "metered", "labels": LABELS, **metadata},
        "spec": spec,
    }


DEPLOYMENT = _object(
    "ModelDeployment",
    {
        "replicas": 3,
        "clusterSelector": {"matchLabels": LABELS},
        "engines": [
            {
                "name": "engine",
                "members": [
                    {
                        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [SELECTOR]}]},
                        "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
                    }
                ],
            }
        ],
    },
    namespace=NAMESPACE,
)


@dataclass(frozen=True, slots=True)
class Controller:
    """A running ``modelplane controller``."""

    log: Path
    address: str

    async def fetch(self, path: str) -> tuple[int, str]:
        status, _, body = await asyncio.to_thread(fetch, self.address, path)
        return status, body.decode()

    async def metrics(self) -> dict[tuple[str, ...], float]:
        """Return every value by its metric and the values of its labels, in the order of their names."""
        status, text = await self.fetch("/metrics")
        assert status == 200, text
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    async def until(self, expected: dict[tuple[str, ...], float | None]) -> None:
        """Wait until metrics have values; None is for those that are to be absent."""
        found: dict[tuple[str, ...], float | None] = {}
        try:
            async with asyncio.timeout(PATIENCE_S):
                while found != expected:
                    await asyncio.sleep(0.1)
                    known = await self.metrics()
                    found = {key: known.get(key) for key in expected}
        except TimeoutError:
            assert found == expected


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture
async def controller(
    control_plane: ControlPlane, client: Client, collector: Collector, tmp_path: Path
) -> AsyncIterator[Controller]:
    """A controller of a fleet of two nodes, of which three replicas want one each."""
    await create_missing(client, [crd(kind) for kind in KINDS] + cluster_objects.load_gateway_api())
    for manifest in [
        *cluster_objects.build_manifests(),
        *_fleet(control_plane.home.controller_kubeconfig),
        DEPLOYMENT,
    ]:
        await client.apply(manifest)
    await client.patch(
        resources.GATEWAYS,
        "inference-gateway",
        {"status": {"addresses": [{"type": "IPAddress", "value": "192.0.2.1"}]}},
        "modelplane-system",
        subresource="status",
    )
    async with _running(control_plane, collector, tmp_path / "controller.log") as running:
        yield running
        for resource in (
            fleet_resources.MODEL_DEPLOYMENTS,
            fleet_resources.INFERENCE_CLUSTERS,
            fleet_resources.INFERENCE_CLASSES,
        ):
            namespace = NAMESPACE if resource.namespaced else None
            await client.delete(resource, "metered", namespace)
            async with asyncio.timeout(PATIENCE_S):
                while await client.get(resource, "metered", namespace):
                    await asyncio.sleep(0.1)


@asynccontextmanager
async def _running(control_plane: ControlPlane, collector: Collector, log: Path) -> AsyncIterator[Controller]:
    with log.open("w") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "modelplane.cli.main", "controller"),
            *("--kubeconfig", str(control_plane.home.controller_kubeconfig)),
            *("--metrics-address", "127.0.0.1:0", "--log-format", "json", "--debug"),
            env={
                **os.environ,
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                "OTEL_BSP_SCHEDULE_DELAY": "100",
            },
            stderr=stderr,
        )
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (address := _address(log)):
                await asyncio.sleep(0.05)
        yield Controller(log, address)
    finally:
        process.terminate()
        await process.wait()


def _address(log: Path) -> str:
    found = re.search(r"metrics at http://([\d.:]+)", log.read_text())
    return found.group(1) if found else ""


async def test_a_controller_tells_of_its_fleet_while_there_is_one(
    controller: Controller, client: Client
) -> None:
    await controller.until(
        {
            ("modelplane_leader",): 1,
            ("modelplane_cluster_reachable", "metered"): 1,
            ("modelplane_replicas", "metered", NAMESPACE, "desired"): 3,
            ("modelplane_replicas", "metered", NAMESPACE, "placed"): 2,
            ("modelplane_replicas", "metered", NAMESPACE, "ready"): 0,
            ("modelplane_unschedulable_replicas", "metered", NAMESPACE, "InsufficientCapacity"): 1,
            ("modelplane_nodes", "metered", "pool", "total"): 2,
            ("modelplane_nodes", "metered", "pool", "used"): 2,
            ("modelplane_nodes", "metered", "pool", "free"): 0,
            ("modelplane_devices", "metered", "gpu", "pool", "total"): 8,
            ("modelplane_devices", "metered", "gpu", "pool", "free"): 0,
        }
    )
    assert [await controller.fetch(path) for path in ("/healthz", "/readyz")] == [(200, "ok\n")] * 2
    counted = await controller.metrics()
    assert counted["modelplane_reconcile_total", "ModelDeployment", "success"] >= 1
    assert counted["modelplane_reconcile_duration_seconds_count", "ModelDeployment"] >= 1
    assert counted["modelplane_queue_latency_seconds_count", "decisions"] >= 1
    await client.delete(fleet_resources.MODEL_DEPLOYMENTS, "metered", NAMESPACE)
    await controller.until(
        {
            ("modelplane_replicas", "metered", NAMESPACE, "desired"): None,
            ("modelplane_unschedulable_replicas", "metered", NAMESPACE, "InsufficientCapacity"): None,
            ("modelplane_nodes", "metered", "pool", "free"): 2,
        }
    )


async def test_lines_and_spans_name_the_objects_and_no_credential(
    controller: Controller, collector: Collector, control_plane: ControlPlane
) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not {"reconcile", "placement", "compose", "write", "write status"} <= collector.spans.keys():
            await asyncio.sleep(0.1)
    spans = collector.spans
    assert set(attributes(spans["placement"])) == {
        f"modelplane.{key}" for key in ("kind", "clusters", "replicas", "placed", "short")
    }
    assert attributes(spans["write"])["modelplane.cluster"] == "metered"
    assert collector.resource["service.name"] == "modelplane-controller"
    # The last line may be in the middle of being written.
    written, _, _ = controller.log.read_text().rpartition("\n")
    lines = [json.loads(line) for line in written.splitlines()]
    reconciled = [line for line in lines if line.get("kind") == "ModelDeployment"]
    assert {(line["namespace"], line["name"]) for line in reconciled} == {(NAMESPACE, "metered")}
    assert all("trace_id" in line for line in reconciled)
    user = yaml.safe_load(control_plane.home.controller_kubeconfig.read_text())["users"][0]["user"]
    assert user
    assert not any(str(credential) in controller.log.read_text() for credential in user.values())
