"""A standby on a real control plane, with the test in the kubelet's place."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable

import pytest

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.compose.readiness import condition_of
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

NAMESPACE, CLUSTER = "team-standby", "standby"
FIRST, SECOND = "first", "second"


def _object(kind: str, name: str, spec: Object, namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _fleet(control_plane: ControlPlane) -> list[Object]:
    """Return a cluster with one node for each of the two deployments."""
    kubeconfig = base64.b64encode(control_plane.home.controller_kubeconfig.read_bytes()).decode()
    secret = {"name": "standby-kubeconfig", "namespace": "modelplane-system"}
    source = {"source": "Existing", "existing": {"secretRef": {"name": secret["name"]}}}
    pools = [{"name": name, "className": f"standby-{name}", "nodeCount": 1} for name in (FIRST, SECOND)]
    classes = (
        _object(
            "InferenceClass",
            f"standby-{name}",
            {"devices": [{"name": "gpu", "driver": f"{name}.example", "deviceClassName": f"{name}.example"}]},
        )
        for name in (FIRST, SECOND)
    )
    return [
        *classes,
        _object("InferenceGateway", "default", {"backend": "Envoy"}),
        {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "data": {"kubeconfig": kubeconfig}},
        _object(
            "InferenceCluster",
            CLUSTER,
            {"cluster": source, "servingStack": {"profile": "None"}, "nodePools": pools},
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


def _deployment(name: str, replicas: int = 1, **spec: object) -> Object:
    selector = [{"cel": f'device.driver == "{name}.example"'}]
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": selector}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
    }
    engines = [{"name": "engine", "members": [member]}]
    return _object("ModelDeployment", name, {"replicas": replicas, "engines": engines, **spec}, NAMESPACE)


_STANDBY = {"name": FIRST, "afterSeconds": 2, "returnAfterSeconds": 2}


class Bench:
    """A user's hands on the control plane, and a kubelet."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.serving: dict[str, int] = {}
        self.least = 99

    async def _look(self) -> None:
        """Let every pod run, and count the replicas that serve."""
        for pod in (await self.client.list(resources.PODS, NAMESPACE)).items:
            if condition_of(pod, "Ready").get("status") != "True":
                await report(self.client, pod)
        replicas = (await self.client.list(fleet_resources.MODEL_REPLICAS, NAMESPACE)).items
        self.serving = {FIRST: 0, SECOND: 0}
        for each in replicas:
            is_up = condition_of(each, "Ready").get("status") == "True" and not each["spec"].get("draining")
            self.serving[each["metadata"]["labels"]["modelplane.ai/deployment"]] += is_up
        self.least = min(self.least, sum(self.serving.values()))

    async def until(self, holds: Callable[[dict[str, int]], bool]) -> None:
        """Run the kubelet until the numbers of replicas that serve are as wanted."""
        async with asyncio.timeout(PATIENCE_S):
            while not (self.serving and holds(self.serving)):
                await self._look()
                await asyncio.sleep(0.1)

    async def until_said(self, reason: str) -> None:
        """Wait until the condition of the standby has a reason: replicas are written before a status."""
        said = None
        async with asyncio.timeout(PATIENCE_S):
            while said != reason:
                await asyncio.sleep(0.05)
                item = await self.client.get(fleet_resources.MODEL_DEPLOYMENTS, SECOND, NAMESPACE)
                assert item is not None
                said = condition_of(item, "StandbyActive").get("reason", "")


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: other modules leave clusters on the common one."""
    return own_control_plane


@pytest.fixture
async def bench(control_plane: ControlPlane, client: Client) -> AsyncIterator[Bench]:
    await create_missing(client, [crd(kind) for kind in KINDS] + cluster_objects.load_gateway_api())
    for manifest in [*cluster_objects.build_manifests(), *_fleet(control_plane)]:
        await client.apply(manifest)
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    proxy = GatewayDirectory(control_plane.home.envoy, "127.0.0.1:8080", lambda _directory, _files: False)
    async with running_controllers(control_plane, proxy):
        yield Bench(client)
        for name in (FIRST, SECOND):
            await client.delete(fleet_resources.MODEL_DEPLOYMENTS, name, NAMESPACE)
        await client.delete(fleet_resources.INFERENCE_CLUSTERS, CLUSTER)
        async with asyncio.timeout(PATIENCE_S):
            while (await client.list(resources.DEPLOYMENTS, NAMESPACE)).items:
                await asyncio.sleep(0.1)


async def test_a_standby_steps_in_and_returns_and_can_be_made_an_ordinary_deployment(bench: Bench) -> None:
    await bench.client.apply(_deployment(FIRST))
    await bench.client.apply(_deployment(SECOND, standbyFor=_STANDBY))
    await bench.until(lambda serving: serving == {FIRST: 1, SECOND: 0})
    bench.least = 99

    await bench.client.apply(_deployment(FIRST, replicas=2))
    await bench.until(lambda serving: serving == {FIRST: 1, SECOND: 1})
    await bench.until_said("Unplaced")

    await bench.client.apply(_deployment(FIRST))
    await bench.until(lambda serving: serving == {FIRST: 1, SECOND: 0})
    await bench.until_said("NotNeeded")
    assert bench.least >= 1

    # Server-side apply removes the whole setting, with its defaults.
    await bench.client.apply(_deployment(SECOND))
    await bench.until(lambda serving: serving == {FIRST: 1, SECOND: 1})
    await bench.until_said("")
