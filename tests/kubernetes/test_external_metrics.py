"""The real HorizontalPodAutoscaler controller scales a deployment by the counts of a gateway."""

import asyncio
import base64
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.api.kinds import kind_of
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.schema.crd import crd
from modelplane.compose.readiness import condition_of
from modelplane.controllers import external_metrics_server, fleet_resources
from modelplane.gateway.usage.load import Load, Reading
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource
from modelplane.local.home import Home
from modelplane.local.kubernetes import cluster_objects, pki
from modelplane.local.kubernetes.control_plane import Pki
from support.fleets import ControlPlane, control_plane_of
from support.patience import PATIENCE_S
from support.third_party_crds import definitions

pytestmark = pytest.mark.kubernetes

KINDS = (kind_of(ModelDeployment), kind_of(ModelEndpoint), kind_of(ModelService))
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "scale-to-zero.md"
SERVICE = "modelplane-metrics"
OURS = "modelplane.ai/v1alpha1"
PROXY, SERVING = "front-proxy", "metrics"
IDENTITIES = (
    pki.Identity(PROXY, "front-proxy-client"),
    pki.Identity(SERVING, SERVICE, (), (f"{SERVICE}.default.svc",)),
)
PROGRAM = """\
#!{python}
import os, sys
given = sys.argv[1:]
if given[0] == "control-plane":
    at = given.index("kube-apiserver") + 1
    given[at:at] = ["--proxy-client-cert-file={proxy}.crt", "--proxy-client-key-file={proxy}.key"]
    at = given.index("kube-controller-manager") + 1
    given[at:at] = ["--controllers=horizontal-pod-autoscaler-controller"]
    given[at:at] = ["--horizontal-pod-autoscaler-sync-period=1s"]
os.execv("{binary}", ["{binary}", *given])
"""


@pytest.fixture(scope="module")
def plane(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that scales, and that extensions know by a certificate."""
    folder = tmp_path_factory.mktemp("scaling")
    home, program = Home(folder / "home"), folder / "kubernetes"
    text = PROGRAM.format(python=sys.executable, proxy=home.pki / PROXY, binary=kubernetes_binary)
    program.write_text(text)
    program.chmod(0o700)
    home.pki.mkdir(parents=True, mode=0o700)
    pki.ensure(Pki(home.pki), IDENTITIES, pki.get_now())
    with control_plane_of(home, program) as running:
        yield running


class Counts:
    """A gateway whose counts a test sets."""

    informers: tuple[Informer, ...] = ()

    def __init__(self) -> None:
        self.now = Load({"a": Reading(in_flight={"default/qwen-1": 25})})

    async def load(self) -> Load:
        return self.now


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.from_kubeconfig(
        str(plane.kubeconfig), known=fleet_resources.find_known, timeout_s=PATIENCE_S
    ) as connected:
        yield connected


def deployment(replicas: int) -> Object:
    member = {
        "role": "Standalone",
        "nodeSelector": {"devices": [{"name": "gpu", "count": 1, "selectors": [{"cel": "true"}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.11.0"}]}},
    }
    engines = [{"name": "main", "members": [member]}]
    return _object(OURS, "ModelDeployment", "qwen", spec={"replicas": replicas, "engines": engines})


def _object(version: str, kind: str, name: str, labels: Any = None, **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "default", **({"labels": labels} if labels else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def autoscaler() -> Object:
    metric = {"name": "modelplane_requests", "selector": {"matchLabels": {"deployment": "qwen"}}}
    target = {"type": "AverageValue", "averageValue": "10"}
    spec = {
        "scaleTargetRef": {"apiVersion": OURS, "kind": "ModelDeployment", "name": "qwen"},
        "minReplicas": 1,
        "maxReplicas": 8,
        "metrics": [{"type": "External", "external": {"metric": metric, "target": target}}],
    }
    return _object("autoscaling/v2", "HorizontalPodAutoscaler", "qwen", spec=spec)


def of_keda(scaled: Object) -> Object:
    """Return a ScaledObject as KEDA's controller makes a HorizontalPodAutoscaler of it, with our metric."""
    name, spec = scaled["metadata"]["name"], scaled["spec"]
    written = autoscaler()
    written["metadata"] |= {
        "name": f"keda-hpa-{name}",
        "labels": {
            "app.kubernetes.io/managed-by": "keda-operator",
            "app.kubernetes.io/name": f"keda-hpa-{name}",
            "app.kubernetes.io/part-of": name,
            "scaledobject.keda.sh/name": name,
        },
        "ownerReferences": [
            {
                "apiVersion": scaled["apiVersion"],
                "kind": scaled["kind"],
                "name": name,
                "uid": scaled["metadata"]["uid"],
                "blockOwnerDeletion": True,
                "controller": True,
            }
        ],
    }
    # KEDA itself scales to zero and from it.
    written["spec"] |= {
        "minReplicas": max(1, spec["minReplicaCount"]),
        "maxReplicas": spec["maxReplicaCount"],
        "scaleTargetRef": spec["scaleTargetRef"],
    }
    return written


def shown_scaled_object() -> Object:
    """Return the ScaledObject of the page for the deployment of this test."""
    page = PAGE.read_text().replace("gemma", "qwen")
    blocks = [block.split("```")[0] for block in page.split("```yaml\n")[1:]]
    [shown] = [found for found in map(yaml.safe_load, blocks) if found["kind"] == "ScaledObject"]
    shown["metadata"]["namespace"] = "default"
    shown["spec"]["maxReplicaCount"] = 8
    return dict(shown)


def registration(authority: bytes, port: int) -> list[Object]:
    name = {"name": "v1beta1.external.metrics.k8s.io"}
    spec = {
        "group": "external.metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": "default", "name": SERVICE, "port": port},
        "caBundle": base64.b64encode(authority).decode(),
    }
    external = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    return [
        _object("v1", "Service", SERVICE, spec=external),
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": name, "spec": spec},
    ]


async def until(client: Client, manifest: Object, holds: Callable[[Object], bool]) -> None:
    resource = await client.find_resource(manifest)
    namespace = manifest["metadata"].get("namespace")
    found: Object | None = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (found and holds(found)):
                found = await client.get(resource, manifest["metadata"]["name"], namespace)
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"it is {found}")


async def discovered(client: Client, manifest: Object) -> Resource | None:
    """Return the resource of a kind that is established: the server lists it a moment later."""
    try:
        return await client.find_resource(manifest)
    except errors.ApiError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        return None


async def keda(client: Client) -> Object:
    """Return the ScaledObject of the page as the API server has it, with KEDA's own definition."""
    [definition] = [each for each in definitions("keda") if each["spec"]["names"]["kind"] == "ScaledObject"]
    await cluster_objects.apply_together(client, [definition])
    await cluster_objects.wait_until_established(client, [definition["metadata"]["name"]])
    shown = shown_scaled_object()
    async with asyncio.timeout(PATIENCE_S):
        while not (resource := await discovered(client, shown)):
            await asyncio.sleep(0.05)
    await client.apply(shown)
    found = await client.get(resource, shown["metadata"]["name"], "default")
    assert found is not None
    assert found["spec"] == shown["spec"], "the API server has dropped no field"
    return found


async def test_the_controller_scales_by_counts_and_not_without(plane: ControlPlane, client: Client) -> None:
    await cluster_objects.apply_together(client, [crd(kind) for kind in KINDS])
    await cluster_objects.wait_until_established(client, [kind.definition for kind in KINDS])
    endpoint = _object(
        OURS,
        "ModelEndpoint",
        "qwen-1",
        {"modelplane.ai/deployment": "qwen"},
        spec={"url": "http://a.example"},
    )
    for manifest in (deployment(1), endpoint):
        await client.apply(manifest)
    status = {"replicas": {"total": 1, "ready": 1}, "selector": "modelplane.ai/deployment=qwen"}
    await client.apply(_object(OURS, "ModelDeployment", "qwen", status=status), subresource="status")
    counts = Counts()
    metrics = external_metrics_server.ExternalMetrics(client, counts)
    files = Pki(plane.home.pki)
    context = external_metrics_server.context(
        files.find_certificate(SERVING), files.find_key(SERVING), files.authority
    )
    names = frozenset({"front-proxy-client"})
    reading = asyncio.create_task(metrics.serve())
    with external_metrics_server.Server(("127.0.0.1", 0), context, metrics, names) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            service, registered = registration(files.authority.read_bytes(), server.server_address[1])
            for manifest in (service, registered, autoscaler()):
                await client.apply(manifest)
            await until(client, registered, lambda it: condition_of(it, "Available").get("status") == "True")
            await until(client, deployment(1), lambda it: it["spec"]["replicas"] == 3)
            await client.delete(await client.find_resource(autoscaler()), "qwen", "default")
            scaled = await keda(client)
            counts.now = Load({"a": Reading(in_flight={"default/qwen-1": 60})})
            await client.apply(of_keda(scaled))
            await until(client, deployment(1), lambda it: it["spec"]["replicas"] == 6)
            counts.now = Load(problem="no pod is ready")
            await until(
                client,
                of_keda(scaled),
                lambda it: condition_of(it, "ScalingActive").get("reason") == "FailedGetExternalMetric",
            )
            await until(client, deployment(1), lambda it: it["spec"]["replicas"] == 6)
        finally:
            server.shutdown()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
