"""Quotas, priorities and preemption on a real control plane, with the test in the kubelet's place."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from click.testing import CliRunner

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.cli.main import main
from modelplane.compose.readiness import condition_of, holds
from modelplane.controllers import fleet_resources
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes import cluster_objects
from modelplane.proxy.proxies import GatewayDirectory
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.kinds import create_missing
from support.patience import PATIENCE_S
from support.pod_reports import report

# Where controllers stop while they connect, httpcore2 leaves a connection whose TLS handshake is cancelled to
# the garbage collector.
pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

CHAT, BATCH = "team-chat", "team-batch"
QUOTAS = fleet_resources.DEVICE_QUOTAS


def _object(kind: str, name: str, spec: Object, namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _fleet(control_plane: ControlPlane) -> list[Object]:
    kubeconfig = base64.b64encode(control_plane.home.controller_kubeconfig.read_bytes()).decode()
    secret = {"name": "test-kubeconfig", "namespace": "modelplane-system"}
    device = {"name": "gpu", "driver": "test.example", "deviceClassName": "test.example"}
    listeners = [{"name": "http", "port": 8081, "protocol": "HTTP"}]
    source = {"source": "Existing", "existing": {"secretRef": {"name": secret["name"]}}}
    pools = [{"name": "pool", "className": "quotas", "nodeCount": 4}]
    return [
        _object("InferenceClass", "quotas", {"devices": [device]}),
        _object("InferenceGateway", "default", {"backend": "Envoy"}),
        {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "data": {"kubeconfig": kubeconfig}},
        _object(
            "InferenceCluster",
            "quotas",
            {"cluster": source, "servingStack": {"profile": "None"}, "nodePools": pools},
        ),
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": "inference-gateway", "namespace": "modelplane-system"},
            "spec": {"gatewayClassName": "modelplane", "listeners": listeners},
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "chat"},
            "value": 1000,
        },
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in (CHAT, BATCH)),
    ]


def _quota(team: str, nominal: int, **spec: object) -> Object:
    limits = [{"className": "quotas", "nominalQuota": nominal}]
    return _object("DeviceQuota", team, {"namespaces": [team], "cohort": "all", "classes": limits, **spec})


def _deployment(team: str, replicas: int, **spec: object) -> Object:
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
    }
    engines = [{"name": "engine", "members": [member]}]
    return _object("ModelDeployment", "model", {"replicas": replicas, "engines": engines, **spec}, team)


class Bench:
    """Two teams' hands on the control plane, and a kubelet whose pods always run."""

    def __init__(self, client: Client, control_plane: ControlPlane) -> None:
        self.client = client
        self.kubeconfig = str(control_plane.home.kubeconfig)

    async def run_pods(self) -> None:
        """Report every pod once, as a kubelet would."""
        for team in (CHAT, BATCH):
            for pod in (await self.client.list(resources.PODS, team)).items:
                if condition_of(pod, "Ready").get("status") != "True":
                    await report(self.client, pod)

    async def serving(self, team: str) -> int:
        """Return how many replicas of a team serve and are to stay."""
        replicas = (await self.client.list(fleet_resources.MODEL_REPLICAS, team)).items
        return sum(holds(each, "Ready") and not each["spec"].get("draining") for each in replicas)

    async def scheduled(self, team: str) -> str:
        """Return the message about the replicas of a team."""
        item = await self.client.get(fleet_resources.MODEL_DEPLOYMENTS, "model", team)
        return str(condition_of(item or {}, "ReplicasScheduled").get("message", ""))

    async def until_scheduled(self, team: str, text: str) -> None:
        """Run the kubelet until the message about the replicas of a team has a text."""

        async def says() -> bool:
            return text in await self.scheduled(team)

        await self.until(says)

    async def until(self, check: Callable[[], Awaitable[bool]]) -> None:
        """Run the kubelet until something holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not await check():
                await self.run_pods()
                await asyncio.sleep(0.1)

    async def until_serving(self, chat: int, batch: int) -> None:
        """Run the kubelet until so many replicas of each team serve."""

        async def serve() -> bool:
            return (await self.serving(CHAT), await self.serving(BATCH)) == (chat, batch)

        await self.until(serve)


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: other modules leave clusters on the common one."""
    return own_control_plane


@pytest.fixture
async def bench(control_plane: ControlPlane, client: Client) -> AsyncIterator[Bench]:
    await create_missing(client, [crd(kind) for kind in KINDS] + cluster_objects.load_gateway_api())
    for manifest in [*cluster_objects.build_manifests(), *_fleet(control_plane)]:
        await client.apply(manifest)
    proxy = GatewayDirectory(control_plane.home.envoy, "127.0.0.1:8080", lambda _directory, _files: False)
    async with running_controllers(control_plane, proxy):
        yield Bench(client, control_plane)
        for team in (CHAT, BATCH):
            await client.delete(fleet_resources.MODEL_DEPLOYMENTS, "model", team)
            await client.delete(QUOTAS, team)
        await client.delete(fleet_resources.INFERENCE_CLUSTERS, "quotas")
        async with asyncio.timeout(PATIENCE_S):
            while any([(await client.list(resources.DEPLOYMENTS, team)).items for team in (CHAT, BATCH)]):
                await asyncio.sleep(0.1)


async def test_devices_that_were_lent_come_back_by_drain(bench: Bench) -> None:
    rights = {"priorityClassNames": ["chat"], "preemption": {"withinCohort": "LowerPriority"}}
    await bench.client.apply(_quota(CHAT, 2, **rights))
    await bench.client.apply(_quota(BATCH, 1))
    await bench.client.apply(_deployment(BATCH, 4))
    await bench.until_serving(0, 3)
    await bench.until_scheduled(
        BATCH, "namespace team-batch uses 3 of 1 gpu devices of class quotas and can borrow 0"
    )
    explained = await asyncio.to_thread(
        CliRunner().invoke, main, ["explain", "md/model", "-n", BATCH, "--kubeconfig", bench.kubeconfig]
    )
    assert 'above DeviceQuota "team-batch"' in explained.output

    await bench.client.apply(_deployment(CHAT, 3, priorityClassName="chat"))
    await bench.until_serving(2, 1)

    async def told() -> bool:
        # The condition has moved on by now.
        events = (await bench.client.list(resources.EVENTS, BATCH)).items
        why = '"team-chat/model" of priority 1000 (PriorityClass "chat")'
        return any(why in each["note"] for each in events if each["reason"] == "Preempted")

    await bench.until(told)

    async def counted() -> bool:
        found = [await bench.client.get(QUOTAS, team) for team in (CHAT, BATCH)]
        uses = [use for each in found if each for use in each.get("status", {}).get("classes", ())]
        return [each["used"] for each in uses] == [2, 1]

    await bench.until(counted)
    await bench.until_scheduled(CHAT, "can borrow 0; this replica needs 1")
