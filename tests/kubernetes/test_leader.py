"""Two controllers on a real control plane: one acts, the other follows, and nothing is done twice.

Every request of theirs passes through a proxy, so what each of them wrote, and when, is known.
"""

import asyncio
import base64
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from modelplane.compose.readiness import is_true
from modelplane.controllers import fleet_resources
from modelplane.controllers.leader import LEASE, STANDARD
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes import cluster_objects
from support import stopping
from support.fleets import ControlPlane
from support.kinds import install
from support.patience import PATIENCE_S
from support.recording_proxy import RecordingProxy, Write, recording

pytestmark = pytest.mark.kubernetes

SYSTEM = "modelplane-system"
TEAM = "team"
HANDED_OVER_S = STANDARD.duration_s
"""Whoever takes longer waited for a lease to expire, which its holder should have released."""
RESTS_S = 0.4
"""How long a controller writes nothing before it counts as at rest; less than the time between renewals."""
LEASES = resources.LEASES.build_path(SYSTEM)

CHILDREN = (
    fleet_resources.MODEL_REPLICAS,
    resources.DEPLOYMENTS,
    resources.SERVICES,
    resources.HTTP_ROUTES,
    resources.RESOURCE_CLAIM_TEMPLATES,
)


class Controller:
    """One `modelplane controller --leader-elect`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, health: str) -> None:
        self.process = process
        self.pid = process.pid
        self._log = log
        self._health = health

    def signal(self, number: signal.Signals) -> float:
        """Send a signal and return when."""
        at = time.monotonic()
        self.process.send_signal(number)
        return at

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    async def ready(self) -> int:
        async with aiohttp.ClientSession() as session, session.get(f"{self._health}/readyz") as response:
            return response.status

    async def stopped(self) -> float:
        """Wait until it has stopped itself, and return when that was seen."""

        async def stopped() -> bool:
            return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED

        await eventually(stopped)
        return time.monotonic()

    @property
    def log(self) -> str:
        return self._log.read_text()


class Bench:
    """A fleet on one control plane, and its controllers."""

    def __init__(self, client: Client, proxy: RecordingProxy, directory: Path) -> None:
        self.client = client
        self.proxy = proxy
        self._directory = directory
        self._kubeconfig = directory / "kubeconfig"
        self._kubeconfig.write_text(proxy.kubeconfig())
        self._running: list[Controller] = []
        self._replaced: set[int] = set()
        self.applied: list[str] = []

    async def install(self) -> None:
        await install(self.client, cluster_objects.load_gateway_api())
        for manifest in _fleet(self.proxy.kubeconfig()):
            await self.client.apply(manifest)
        # As whoever runs the cluster's own gateway does.
        address = {"status": {"addresses": [{"type": "IPAddress", "value": "192.0.2.1"}]}}
        await self.client.patch(
            resources.GATEWAYS, "inference-gateway", address, SYSTEM, subresource="status"
        )

    async def start(self, program: Sequence[str] = ("-m", "modelplane.cli.main")) -> Controller:
        """Start one more controller."""
        number = len(self._running)
        log, port = self._directory / f"controller-{number}.log", _free_port()
        arguments = (
            *("--kubeconfig", str(self._kubeconfig)),
            "--leader-elect",
            *("--gateway-service", "modelplane-gateway"),
            *("--metrics-address", f"127.0.0.1:{port}"),
        )
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, *program, "controller", *arguments),
                stdout=output,
                stderr=output,
            )
        self._running.append(Controller(process, log, f"http://127.0.0.1:{port}"))
        self.proxy.pids.add(process.pid)
        return self._running[-1]

    async def pair(self, leader: Controller | None = None) -> tuple[Controller, Controller]:
        """Start two controllers, or the second of them; return the leader and the standby."""
        leader = leader or await self.start()
        await eventually(lambda: self.leads(leader))
        standby = await self.start()

        async def ready() -> bool:
            with suppress(aiohttp.ClientConnectionError):
                return await standby.ready() == 200
            return False

        await eventually(ready)
        return leader, standby

    async def leads(self, controller: Controller) -> bool:
        lease = await self.client.get(resources.LEASES, LEASE, SYSTEM)
        return lease is not None and f"_{controller.pid}_" in (lease["spec"].get("holderIdentity") or "")

    async def deploy(self, name: str, replicas: int = 1, image: str = "engine:1") -> None:
        await self.client.apply(_deployment(name, replicas, image))
        if name not in self.applied:
            self.applied.append(name)

    async def deploy_many(self, prefix: str, count: int, pause_s: float = 0.05) -> None:
        for number in range(count):
            await self.deploy(f"{prefix}-{number}", 1 + number % 2)
            await asyncio.sleep(pause_s)

    async def placed(self, name: str) -> bool:
        found = await self.client.get(fleet_resources.MODEL_DEPLOYMENTS, name, TEAM)
        return found is not None and is_true(found, "ReplicasScheduled")

    async def complete(self) -> None:
        """Wait until every deployment that was ever applied has all its replicas and their workloads."""

        async def done() -> bool:
            wanted = (await self.client.list(fleet_resources.MODEL_DEPLOYMENTS, TEAM)).items
            placed = {each["metadata"]["name"] for each in wanted if is_true(each, "ReplicasScheduled")}
            if not placed.issuperset(self.applied):
                return False
            replicas = (await self.client.list(fleet_resources.MODEL_REPLICAS, TEAM)).items
            workloads = (await self.client.list(resources.DEPLOYMENTS, TEAM)).items
            expected: int = sum(each["spec"]["replicas"] for each in wanted)
            return len(replicas) == len(workloads) == expected

        await eventually(done, pause_s=0.5)

    async def nothing_twice(self, late: Collection[Write] = ()) -> None:
        """Every child was made once, under one name, and written as it is from the start.

        Events are not repeated either, but of objects whose status a late write set back: the next leader
        puts it right, and tells of that.
        """
        created = Counter(write.path for write in self.proxy.writes if write.status == 201 and _names(write))
        assert [path for path, times in created.items() if times > 1] == []
        deployments = (await self.client.list(fleet_resources.MODEL_DEPLOYMENTS, TEAM)).items
        replicas = (await self.client.list(fleet_resources.MODEL_REPLICAS, TEAM)).items
        assert Counter(each["metadata"]["labels"]["modelplane.ai/deployment"] for each in replicas) == {
            each["metadata"]["name"]: each["spec"]["replicas"] for each in deployments
        }
        rewritten = [
            (resource.kind, item["metadata"]["name"])
            for resource in CHILDREN
            for item in (await self.client.list(resource, TEAM)).items
            if item["metadata"].get("generation", 1) > 1
        ]
        assert rewritten == []
        told = Counter(
            (*(each["regarding"][of] for of in ("name", "uid")), each["action"], each["reason"], each["note"])
            for each in (await self.client.list(resources.EVENTS, TEAM)).items
            if each.get("reportingController", "").startswith("modelplane.ai/")
        )
        set_back = {write.path.split("/")[-2] for write in late if write.path.endswith("/status")}
        assert [what for what, times in told.items() if times > 1 and what[0] not in set_back] == []

    def work_of(self, controller: Controller, since: float = 0.0) -> list[Write]:
        """Return what a controller wrote, the lease apart."""
        return [write for write in self.proxy.by(controller.pid, since) if not write.path.startswith(LEASES)]

    async def worked(self, controller: Controller, writes: int) -> bool:
        return len(self.work_of(controller)) >= writes

    async def at_rest(self, controller: Controller) -> None:
        """Wait until a controller has nothing on its way, nor is about to renew its lease."""

        async def rests() -> bool:
            last = self.proxy.by(controller.pid)[-1]
            return last.status != 0 and RESTS_S <= time.monotonic() - last.at <= STANDARD.retry_s / 2

        await eventually(rests)

    async def succeeded(self, controller: Controller, since: float, within_s: float = PATIENCE_S) -> None:
        """Wait for a controller to take the lease within a time."""

        async def has() -> bool:
            return bool(self.led(controller, since))

        await eventually(has)
        assert self.led(controller, since)[0].at - since <= within_s

    def led(self, controller: Controller, since: float = 0.0) -> list[Write]:
        """Return the writes by which a controller took or renewed the lease."""
        own = self.proxy.by(controller.pid, since)
        return [write for write in own if write.path.startswith(LEASES) and write.status == 200]

    async def replace_deposed(self) -> None:
        """Start another controller for each that ended because it lost the lease, as a Deployment does.

        On a machine with too much to do, the one that a test waits for can lose the lease too.
        """
        while True:
            for each in tuple(self._running):
                if each.process.returncode == 1 and each.pid not in self._replaced:
                    self._replaced.add(each.pid)
                    await self.start()
            await asyncio.sleep(0.5)

    async def close(self) -> None:
        for controller in self._running:
            if controller.process.returncode is None:
                controller.process.send_signal(signal.SIGCONT)
                controller.process.kill()
                await controller.process.wait()
        await self.client.delete(resources.LEASES, LEASE, SYSTEM)


def _names(write: Write) -> bool:
    """Whether a write names its object; events have names of their own each time."""
    return write.method == "PATCH"


async def eventually(
    check: Callable[[], Awaitable[bool]], timeout_s: float = PATIENCE_S, pause_s: float = 0.05
) -> None:
    async with asyncio.timeout(timeout_s):
        while not await check():
            await asyncio.sleep(pause_s)


def _free_port() -> int:
    import socket  # noqa: PLC0415 - one line's worth

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _fleet(kubeconfig: str) -> list[Object]:
    device = {
        "name": "gpu",
        "driver": "test.example",
        "deviceClassName": "test.example",
        "capacity": {"memory": {"value": "24Gi"}},
    }
    gateway = {"gatewayClassName": "other", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}
    service = {"type": "ClusterIP", "ports": [{"name": "http", "port": 80}]}
    secret = {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()}
    existing = {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig"}}}
    pools = [{"name": "pool", "className": "test", "nodeCount": 1000}]
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (SYSTEM, TEAM)),
        _object("modelplane.ai/v1alpha1", "InferenceClass", "test", spec={"devices": [device]}),
        _object("modelplane.ai/v1alpha1", "InferenceGateway", "default", spec={"backend": "Envoy"}),
        _object("v1", "Secret", "kubeconfig", SYSTEM, data=secret),
        _object("v1", "Service", "modelplane-gateway", SYSTEM, spec=service),
        _object(
            "modelplane.ai/v1alpha1",
            "InferenceCluster",
            "test",
            spec={"cluster": existing, "servingStack": {"profile": "None"}, "nodePools": pools},
        ),
        _object("gateway.networking.k8s.io/v1", "Gateway", "inference-gateway", SYSTEM, spec=gateway),
    ]


def _deployment(name: str, replicas: int, image: str) -> Object:
    container = {"name": "engine", "image": image}
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]},
        "template": {"spec": {"containers": [container]}},
    }
    spec = {"replicas": replicas, "engines": [{"name": "engine", "members": [member]}]}
    return _object("modelplane.ai/v1alpha1", "ModelDeployment", name, TEAM, spec=spec)


def _object(api_version: str, kind: str, name: str, namespace: str = "", **content: Any) -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **where}, **content}


@pytest.fixture(scope="module")
def plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: the controllers here act on everything that is there."""
    return own_control_plane


@pytest.fixture
async def bench(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Bench]:
    async with (
        Client.from_kubeconfig(str(plane.kubeconfig), known=fleet_resources.find_known) as client,
        recording(plane, tmp_path) as proxy,
    ):
        running = Bench(client, proxy, tmp_path)
        await running.install()
        replacing = asyncio.create_task(running.replace_deposed())
        try:
            yield running
        finally:
            replacing.cancel()
            await asyncio.gather(replacing, return_exceptions=True)
            await running.close()


async def test_a_leader_that_is_killed_is_followed_and_nothing_is_done_twice(bench: Bench) -> None:
    leader, standby = await bench.pair()
    applying = asyncio.create_task(bench.deploy_many("killed", 40))
    await eventually(lambda: bench.placed("killed-5"))
    assert bench.work_of(standby) == []
    killed = leader.signal(signal.SIGKILL)
    await bench.succeeded(standby, killed)
    await applying
    third = await bench.start()
    await bench.complete()
    await bench.nothing_twice()
    assert bench.led(third) or bench.work_of(third) == []


async def test_a_leader_that_is_told_to_end_hands_over_at_once(bench: Bench) -> None:
    leader, standby = await bench.pair()
    applying = asyncio.create_task(bench.deploy_many("ended", 20))
    await eventually(lambda: bench.placed("ended-2"))
    asked = leader.signal(signal.SIGTERM)
    await bench.succeeded(standby, asked, HANDED_OVER_S)
    assert (await leader.ended(), "Traceback" in leader.log) == (0, False)
    await applying
    await bench.deploy("after-the-end")
    await bench.complete()
    last = max(write.at for write in bench.work_of(leader))
    assert last < min(write.at for write in bench.work_of(standby))
    await bench.nothing_twice()


async def test_a_leader_that_was_stopped_for_long_writes_nothing_when_it_goes_on(bench: Bench) -> None:
    leader, standby = await bench.pair(await bench.start((stopping.__file__,)))
    await bench.deploy_many("before", 3)
    await bench.complete()
    await bench.at_rest(leader)
    leader.signal(signal.SIGUSR1)
    await bench.deploy("decided")
    stopped = await leader.stopped()
    await bench.deploy_many("meanwhile", 10)
    await bench.succeeded(standby, stopped)
    await bench.complete()
    # Now it would be wrong to act on what the one that was stopped knows.
    await bench.deploy("before-0", replicas=2)
    await bench.complete()
    resumed = leader.signal(signal.SIGCONT)
    assert await leader.ended() == 1
    assert bench.proxy.by(leader.pid, resumed) == []
    assert f'lost Lease "{SYSTEM}/{LEASE}"' in leader.log
    await bench.complete()
    await bench.nothing_twice()


@asynccontextmanager
async def _busy(bench: Bench, prefix: str) -> AsyncIterator[None]:
    applying = asyncio.create_task(bench.deploy_many(prefix, 30, pause_s=0))
    try:
        yield
    finally:
        await applying


async def test_nothing_is_done_twice_by_one_that_was_stopped_in_the_middle_of_its_work(bench: Bench) -> None:
    leader, standby = await bench.pair()
    async with _busy(bench, "busy"):
        await eventually(lambda: bench.worked(leader, 100))
        stopped = leader.signal(signal.SIGSTOP)
    await bench.succeeded(standby, stopped)
    await bench.complete()
    late = [write for write in bench.work_of(leader) if write.status == 0]
    resumed = leader.signal(signal.SIGCONT)
    assert await leader.ended() == 1
    # What had passed the last look but not the kernel is sent only now.
    late += bench.work_of(leader, resumed)
    await bench.complete()
    await bench.nothing_twice(late)


async def test_controllers_end_when_crossplane_takes_the_kinds_over(bench: Bench) -> None:
    leader, standby = await bench.pair()
    await bench.deploy("ours")
    await bench.complete()
    await bench.at_rest(leader)
    name = "modeldeployments.modelplane.ai"
    owner = {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "name": name,
        "uid": "00000000-0000-0000-0000-000000000000",
        "controller": True,
    }

    async def owned_by(*owners: Object) -> None:
        patch = {"metadata": {"ownerReferences": [*owners]}}
        await bench.client.patch(resources.CUSTOM_RESOURCE_DEFINITIONS, name, patch)

    await owned_by(owner)
    try:
        taken = time.monotonic()
        assert await leader.ended() == 3
        await bench.deploy("crossplane-s")
        # Its turn comes, and it finds the kinds as they are.
        assert await standby.ended() == 3
    finally:
        await owned_by()
    assert "the controllers must not run" in leader.log
    assert bench.work_of(standby) == []
    assert bench.work_of(leader, taken + 1) == []
