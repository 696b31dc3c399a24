"""A control plane is destroyed and restored from its backup, while its models serve on a cluster."""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from modelplane.api import labels
from modelplane.cli.main import main
from modelplane.compose import workload_kinds
from modelplane.compose.readiness import holds
from modelplane.compose.workload_kinds import Place
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import of_row
from modelplane.host import addresses
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.local_devices import Share, discover
from modelplane.local.home import Home
from modelplane.local.kubernetes import cluster_objects, cluster_registration
from modelplane.local.supervision import lifecycle
from modelplane.local.supervision.processes import CONTROL_PLANE
from modelplane.proxy import envoy_directory as envoy_files
from modelplane.proxy.proxies import GatewayDirectory
from support import kinds
from support.controllers import running_controllers
from support.envoys import Gateway, running_envoy
from support.fleets import ControlPlane, control_plane_of
from support.node_agent import IMAGE, is_ready, running
from support.patience import PATIENCE_S, eventually

pytestmark = [
    pytest.mark.kubernetes,
    # Controllers that stop while they connect leave a connection to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

CLUSTER, NAMESPACE = "west", "ml-team"
PATH = f"/{NAMESPACE}/model/v1/models"
DEVICES = 3
PASSPHRASE = "correct horse battery staple"
ENGINE = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *arguments): pass
http.server.ThreadingHTTPServer((os.environ["MODELPLANE_POD_IP"], 8000), Handler).serve_forever()
"""


def _object(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _model() -> list[Object]:
    """Return a deployment of two replicas, the service in front of it, and a deployment that is to leave."""
    selector = 'device.capacity[device.driver].memory.compareTo(quantity("1Mi")) >= 0'
    member = {
        "nodeSelector": {"devices": [{"name": "cpu", "selectors": [{"cel": selector}]}]},
        "template": {
            "spec": {
                "containers": [{"name": "engine", "image": IMAGE, "command": ["python3", "-u", "-c", ENGINE]}]
            }
        },
    }
    spec = {
        "replicas": 2,
        "rollout": {"maxUnavailable": 1},
        "engines": [{"name": "engine", "members": [member]}],
    }
    selected = {"selector": {"matchLabels": {labels.DEPLOYMENT: "model"}}}
    return [
        _object("ModelDeployment", "model", spec),
        _object("ModelDeployment", "leaving", {**spec, "replicas": 1}),
        _object("ModelService", "model", {"endpoints": [selected]}),
    ]


@pytest.fixture(scope="module")
def member(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The inference cluster, which the control plane's end does not touch."""
    with control_plane_of(Home(tmp_path_factory.mktemp("member")), kubernetes_binary) as started:
        yield started


@dataclass
class Load:
    """Requests through the gateway, for as long as it runs."""

    gateway: Gateway
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    step: str = "backup"
    """The step of the drill that requests belong to."""

    async def _ask(self) -> None:
        while True:
            try:
                status = await self.gateway.status(PATH)
            except aiohttp.ClientError:
                status = 0
            self.statuses[self.step, status] += 1
            await asyncio.sleep(0.02)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send requests, four at a time."""
        tasks = [asyncio.create_task(self._ask()) for _ in range(4)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class Drill:
    """The fleet: a control plane that is destroyed, an inference cluster that is not, and a gateway."""

    def __init__(
        self, plane: ControlPlane, member: ControlPlane, on_member: Client, gateway: Gateway
    ) -> None:
        self.plane = plane
        self.member = member
        self.on_member = on_member
        self.gateway = gateway

    def client(self) -> Client:
        """Return an administrator's client of the control plane."""
        return Client.from_kubeconfig(str(self.plane.kubeconfig), known=fleet_resources.find_known)

    def controllers(self) -> AbstractAsyncContextManager[None]:
        """Run the controllers."""
        address = f"127.0.0.1:{self.gateway.port}"
        proxy = GatewayDirectory(self.gateway.directory, address, envoy_files.write)
        return running_controllers(self.plane, proxy, dial=addresses.find_bound)

    async def install(self) -> None:
        """Install the kinds and the controllers' permissions."""
        async with self.client() as client:
            await kinds.install(client)
        await self.permit()

    async def permit(self) -> None:
        """Install the controllers' permissions."""
        async with self.client() as client:
            for manifest in cluster_objects.build_fleet_roles():
                await client.apply(manifest)

    async def register(self) -> None:
        """Make the fleet: the gateway, the cluster and the model."""
        devices = discover(Share(1, 1, DEVICES))
        await cluster_objects.install_cluster(self.on_member, self.gateway.workload_port, devices)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        async with self.client() as client:
            for manifest in (
                cluster_registration.build_kubeconfig_secret(CLUSTER, self.member.home.controller_kubeconfig),
                cluster_registration.GATEWAY,
                *cluster_registration.describe_hardware(CLUSTER, devices),
                namespace,
                *_model(),
            ):
                await client.apply(manifest)

    async def until_ready(self) -> None:
        """Wait until the model is ready, with every pod, and its service answers."""
        async with self.client() as client:

            async def ready() -> bool:
                found = await client.get(fleet_resources.MODEL_SERVICES, "model", NAMESPACE)
                return found is not None and holds(found, "Ready")

            await eventually(ready)

        async def all_serve() -> bool:
            # A service is ready with the first of its replicas.
            pods = (await self.on_member.list(resources.PODS, NAMESPACE)).items
            ours = [each for each in pods if each["metadata"]["name"].startswith("model-")]
            return len(ours) == 2 and all(map(is_ready, ours))

        await eventually(all_serve)

        async def answers() -> bool:
            return await self.gateway.status(PATH) == 200

        await eventually(answers)

    async def until_adopted(self) -> None:
        """Wait until each object on the inference cluster has the uid that its owner has now."""
        async with self.client() as client:
            selector = f"{labels.DEPLOYMENT}=model"
            owners = (await client.list(fleet_resources.MODEL_REPLICAS, NAMESPACE, labels=selector)).items
        uids = {each["metadata"]["uid"] for each in owners}
        managers = {each["manager"] for owner in owners for each in owner["metadata"]["managedFields"]}
        assert managers == {"modelplane"}, "its fields are the controllers' again"

        async def adopted() -> bool:
            found = (await self.on_member.list(resources.DEPLOYMENTS, NAMESPACE)).items
            ours = [each for each in found if each["metadata"]["name"].startswith("model-")]
            return {each["metadata"]["labels"][labels.OWNER_UID] for each in ours} == uids

        await eventually(adopted)

    async def on_cluster(self, deployment: str = "model") -> dict[tuple[str, str], str]:
        """Return the uids of a deployment on the inference cluster, and the start of each process."""
        found = {}
        rows = [row for row in workload_kinds.rows(Place.CLUSTERS) if row.namespaced]
        for resource in (*map(of_row, rows), resources.PODS):
            if not await self.on_member.is_served(resource):
                continue
            selector = "" if resource == resources.PODS else f"{labels.MANAGED_BY}=modelplane"
            for item in (await self.on_member.list(resource, NAMESPACE, labels=selector)).items:
                name = item["metadata"]["name"]
                if not name.startswith(f"{deployment}-"):
                    continue
                found[resource.kind, name] = item["metadata"]["uid"]
                for status in item.get("status", {}).get("containerStatuses", ()):
                    found["start", name] = f"{status['restartCount']} {status['containerID']}"
        return found

    async def delete(self, deployment: str) -> None:
        """Delete a deployment, and its replicas.

        Kubernetes would delete these too, once its garbage collector has seen their kind.
        """
        replicas, selector = fleet_resources.MODEL_REPLICAS, f"{labels.DEPLOYMENT}={deployment}"
        async with self.client() as client:
            await client.delete(fleet_resources.MODEL_DEPLOYMENTS, deployment, NAMESPACE)
            for item in (await client.list(replicas, NAMESPACE, labels=selector)).items:
                await client.delete(replicas, item["metadata"]["name"], NAMESPACE)

    async def until_running(self, deployment: str) -> None:
        """Wait until a deployment has pods on the inference cluster."""

        async def running() -> bool:
            return "Pod" in {kind for kind, _ in await self.on_cluster(deployment)}

        await eventually(running)

    async def until_gone(self, deployment: str) -> None:
        """Wait until nothing of a deployment is left on the inference cluster."""

        async def gone() -> bool:
            return not await self.on_cluster(deployment)

        await eventually(gone)

    async def destroy(self) -> None:
        """Delete everything that the control plane has stored, and start it empty."""
        home = self.plane.home
        await asyncio.to_thread(lifecycle.stop, home)
        shutil.rmtree(home.etcd)
        home.create()
        await asyncio.to_thread(lifecycle.start, home, self.plane.binary, CONTROL_PLANE)
        await lifecycle.wait_until_running(home, CONTROL_PLANE, PATIENCE_S, lambda _record: None)


@pytest.fixture
async def drill(
    own_control_plane: ControlPlane, member: ControlPlane, tmp_path: Path
) -> AsyncIterator[Drill]:
    async with (
        Client.from_kubeconfig(str(member.kubeconfig), known=fleet_resources.find_known) as on_member,
        running(member.home, member.binary, on_member, f"--cpu-devices={DEVICES}"),
        running_envoy(tmp_path / "envoy") as gateway,
    ):
        yield Drill(own_control_plane, member, on_member, gateway)


async def _run(*arguments: str) -> tuple[int, str]:
    done = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    return done.exit_code, done.output


async def test_a_destroyed_control_plane_is_restored_and_no_engine_notices(
    drill: Drill, tmp_path: Path
) -> None:
    kubeconfig, file, passphrase = (tmp_path / each for each in ("kubeconfig", "fleet.backup", "passphrase"))
    # Elsewhere, so that it does not count as that of a fleet of `modelplane up`.
    shutil.copy(drill.plane.kubeconfig, kubeconfig)
    passphrase.write_text(PASSPHRASE)
    options = ("--kubeconfig", str(kubeconfig), "--passphrase-file", str(passphrase))
    await drill.install()
    async with drill.controllers():
        await drill.register()
        await drill.until_ready()
        await drill.until_running("leaving")
    before = await drill.on_cluster()
    assert len([kind for kind, _ in before if kind == "Pod"]) == 2
    load = Load(drill.gateway)
    async with AsyncExitStack() as stack:
        async with load.running():
            status, said = await _run("backup", str(file), *options)
            assert (status, "3 ModelReplicas" in said) == (0, True), said
            load.step = "destroy"
            await drill.destroy()
            load.step = "restore"
            status, said = await _run("restore", str(file), *options)
            assert (status, "missing" in said) == (0, False), said
            await drill.permit()
            await drill.delete("leaving")
            load.step = "adopt"
            await stack.enter_async_context(drill.controllers())
            await drill.until_adopted()
            assert await drill.on_cluster() == before
            load.step = "serve"
            await drill.until_ready()
            await asyncio.sleep(1)
        steps = ("backup", "destroy", "restore", "adopt", "serve")
        assert load.statuses.keys() == {(step, 200) for step in steps}, load.statuses
        await drill.until_gone("leaving")
        await drill.delete("model")
        await drill.until_gone("model")
