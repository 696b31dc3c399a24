"""Rollouts on a real control plane, with the test in the kubelet's place and the commands of users."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest
from click.testing import CliRunner

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.cli.main import main
from modelplane.compose.readiness import condition_of, holds
from modelplane.compose.workload_kinds import CONTROLLER_REVISION
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

NAMESPACE = "team-rollout"
GOOD, BETTER, BAD = "engine:1", "engine:2", "engine:bad"


def _object(kind: str, name: str, spec: Object, namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _fleet(control_plane: ControlPlane) -> list[Object]:
    kubeconfig = base64.b64encode(control_plane.home.controller_kubeconfig.read_bytes()).decode()
    secret = {"name": "test-kubeconfig", "namespace": "modelplane-system"}
    device = {"name": "gpu", "driver": "test.example", "deviceClassName": "test.example"}
    listeners = [{"name": "http", "port": 8081, "protocol": "HTTP"}]
    source = {"source": "Existing", "existing": {"secretRef": {"name": secret["name"]}}}
    pools = [{"name": "pool", "className": "rollout", "nodeCount": 7}]
    return [
        _object("InferenceClass", "rollout", {"devices": [device]}),
        _object("InferenceGateway", "default", {"backend": "Envoy"}),
        {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "data": {"kubeconfig": kubeconfig}},
        _object(
            "InferenceCluster",
            "rollout",
            {"cluster": source, "servingStack": {"profile": "None"}, "nodePools": pools},
        ),
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": "inference-gateway", "namespace": "modelplane-system"},
            "spec": {"gatewayClassName": "modelplane", "listeners": listeners},
        },
    ]


def _deployment(image: str) -> Object:
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": image}]}},
    }
    spec = {
        "replicas": 6,
        "rollout": {"maxUnavailable": "34%", "progressDeadlineSeconds": 604800},
        "engines": [{"name": "engine", "members": [member]}],
    }
    return _object("ModelDeployment", "model", spec, NAMESPACE)


class Bench:
    """A user's hands on the control plane, and a kubelet that cannot pull one image."""

    def __init__(self, client: Client, control_plane: ControlPlane) -> None:
        self.client = client
        self._kubeconfig = str(control_plane.home.kubeconfig)
        self.least_serving = 6

    async def edit(self, image: str) -> None:
        """Apply the deployment with an image."""
        await self.client.apply(_deployment(image))

    async def rollout(self, *arguments: str) -> tuple[int, str]:
        """Run a command; return its exit status and output."""
        whole = ["rollout", *arguments, "-n", NAMESPACE, "--kubeconfig", self._kubeconfig]
        done = await asyncio.to_thread(CliRunner().invoke, main, whole)
        return done.exit_code, done.output

    async def run_pods(self) -> None:
        """Report every pod once, as a kubelet would."""
        for pod in (await self.client.list(resources.PODS, NAMESPACE)).items:
            serves = pod["spec"]["containers"][0]["image"] != BAD
            if condition_of(pod, "Ready").get("status") != str(serves):
                await report(self.client, pod, ready=serves, phase="Running" if serves else "Pending")

    async def images(self) -> list[str]:
        """Return the images of the replicas, sorted, and note how many serve."""
        replicas = (await self.client.list(fleet_resources.MODEL_REPLICAS, NAMESPACE)).items
        serving = sum(condition_of(each, "Ready").get("status") == "True" for each in replicas)
        self.least_serving = min(self.least_serving, serving)
        return sorted(
            each["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"]
            for each in replicas
        )

    async def said(self) -> tuple[str, str]:
        """Return reason and message of the condition Progressing of the present generation."""
        item = await self.client.get(fleet_resources.MODEL_DEPLOYMENTS, "model", NAMESPACE)
        assert item is not None
        said = condition_of(item, "Progressing")
        seen = said.get("observedGeneration", 0) >= item["metadata"]["generation"]
        return (said["reason"], said["message"]) if seen else ("", "")

    async def until(self, check: Callable[[], Awaitable[bool]]) -> None:
        """Run the kubelet until something holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not await check():
                await self.run_pods()
                await asyncio.sleep(0.1)

    async def until_complete(self, image: str) -> None:
        """Run the kubelet until every replica has an image and the deployment says so."""

        async def complete() -> bool:
            return await self.images() == [image] * 6 and (await self.said())[0] == "RolloutComplete"

        await self.until(complete)


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own, which other modules find nothing of."""
    return own_control_plane


@pytest.fixture
async def bench(control_plane: ControlPlane, client: Client) -> AsyncIterator[Bench]:
    await create_missing(client, [crd(kind) for kind in KINDS] + cluster_objects.load_gateway_api())
    for manifest in [*cluster_objects.build_manifests(), *_fleet(control_plane)]:
        await client.apply(manifest)
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    async with _controllers(control_plane):
        yield Bench(client, control_plane)


def _controllers(control_plane: ControlPlane) -> AbstractAsyncContextManager[None]:
    proxy = GatewayDirectory(control_plane.home.envoy, "127.0.0.1:8080", lambda _directory, _files: False)
    return running_controllers(control_plane, proxy)


async def test_an_edit_is_paused_stopped_and_undone(bench: Bench) -> None:
    await bench.edit(GOOD)
    await bench.until_complete(GOOD)
    bench.least_serving = 6

    await bench.rollout("pause", "md/model")
    await bench.edit(BETTER)
    # The manifest does not have the field, so the apply leaves it to the command.
    await bench.until(lambda: _has(bench, "Paused"))
    assert await bench.images() == [GOOD] * 6
    assert await bench.rollout("resume", "md/model") == (0, "Resumed md/model\n")
    await bench.until_complete(BETTER)
    assert bench.least_serving >= 4

    await bench.edit(BAD)

    async def stopped() -> bool:
        return await bench.images() == [BETTER] * 4 + [BAD] * 2 and (await _serving(bench)) == 4

    await bench.until(stopped)
    code, printed = 0, ""

    async def told() -> bool:
        nonlocal code, printed
        code, printed = await bench.rollout("status", "md/model")
        return printed.startswith("2 of 6 replicas updated, waiting for replica ")

    await bench.until(told)
    assert (code, 'on cluster "rollout"' in printed) == (2, True)
    assert await stopped()
    assert bench.least_serving >= 4

    code, printed = await bench.rollout("history", "md/model")
    assert [line.split()[-2:] for line in printed.splitlines()[1:]][:1] == [[BAD, "current"]]
    code, printed = await bench.rollout("undo", "md/model")
    assert (code, printed.splitlines()[0]) == (
        0,
        f"Rolled back md/model to the template of revision 2: {BETTER}",
    )
    await bench.until_complete(BETTER)
    assert bench.least_serving >= 4
    kept = (await bench.client.list(fleet_resources.of_row(CONTROLLER_REVISION), NAMESPACE)).items
    assert sorted(each["revision"] for each in kept) == [1, 3, 4]


async def _has(bench: Bench, reason: str) -> bool:
    return (await bench.said())[0] == reason


async def _serving(bench: Bench) -> int:
    replicas = (await bench.client.list(fleet_resources.MODEL_REPLICAS, NAMESPACE)).items
    return sum(holds(each, "Ready") for each in replicas)
