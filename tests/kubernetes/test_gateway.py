"""The gateway of a cluster: real Envoys, configured by `modelplane gateway` through a real API server."""

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import modelplane
from modelplane.api.model_key import ModelKey
from modelplane.compose.readiness import condition_of
from modelplane.controllers import fleet_resources
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource
from modelplane.local.supervision import lifecycle
from modelplane.local.supervision.processes import CONTROL_PLANE
from modelplane.proxy import ledgers
from modelplane.proxy.publication import Read, read
from support.envoys import free_ports
from support.fleets import ControlPlane
from support.gateway_module import running_model
from support.kinds import install
from support.patience import PATIENCE_S, eventually

pytestmark = pytest.mark.kubernetes

SYSTEM = "modelplane-system"
PRIVATE = "modelplane-gateway"
TEAM = "team"
SERVICE = "modelplane-gateway"
ADDRESS = f"{SERVICE}.{SYSTEM}.svc"
GATEWAY = {"backend": "Envoy", "allowedDestinations": ["127.0.0.1"]}
"""The engines of these tests are on loopback, which a gateway in a cluster refuses."""


class Command:
    """A running command of ours."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S)


class Commands:
    """Starts commands, and ends at the end those that still run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[Command] = []

    async def start(self, *arguments: str, **environment: str) -> Command:
        log = self._directory / f"{arguments[0]}-{len(self._started)}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "modelplane.cli.main", *arguments),
                stdout=output,
                stderr=output,
                env={**os.environ, **environment},
            )
        self._started.append(Command(process, log))
        return self._started[-1]

    async def close(self) -> None:
        for command in self._started:
            if command.process.returncode is None:
                await command.end(signal.SIGKILL)


class Pod:
    """What a pod of the gateway runs: an Envoy, and its companion."""

    def __init__(
        self, commands: Commands, kubeconfig: Path, directory: Path, session: aiohttp.ClientSession
    ) -> None:
        self._commands = commands
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._session = session
        self.port = next(free_ports())
        self._health = next(free_ports())
        self._where = ("--dir", str(directory), "--port", str(self.port), "--address", "127.0.0.1")

    async def start_envoy(self, **environment: str) -> None:
        self.envoy = await self._commands.start("envoy", *self._where, **environment)

    async def start_companion(self) -> None:
        self.companion = await self._commands.start(
            "gateway",
            *self._where,
            *("--kubeconfig", str(self._kubeconfig)),
            *("--metrics-address", f"127.0.0.1:{self._health}"),
            *("--drain-seconds", "1"),
        )

    async def start(self, **environment: str) -> None:
        await self.start_companion()
        await self.start_envoy(**environment)
        await eventually(self.ready)

    async def readiness(self) -> tuple[int, str]:
        try:
            async with self._session.get(f"http://127.0.0.1:{self._health}/readyz") as response:
                return response.status, (await response.text()).strip()
        except aiohttp.ClientConnectionError:
            return 0, ""

    async def ready(self) -> bool:
        return (await self.readiness())[0] == 200

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def get(self, path: str, key: str = "") -> tuple[int, str]:
        # A connection from before a change of the listener keeps the listener's former settings.
        headers = {"connection": "close"} | ({"authorization": f"Bearer {key}"} if key else {})
        try:
            async with self._session.get(self.url(path), headers=headers) as response:
                return response.status, await response.text()
        except aiohttp.ClientConnectionError:
            return 0, ""

    async def serves(self, path: str, body: str) -> None:
        async def answered() -> bool:
            return await self.get(path) == (200, body)

        await eventually(answered)

    async def check(self) -> tuple[int, str]:
        """Return the status and the words of `modelplane envoy --check`."""
        asked = await self._commands.start("envoy", "--check", "--dir", str(self._directory))
        return await asyncio.wait_for(asked.process.wait(), PATIENCE_S), asked.log.strip()


class Bench:
    """Controllers that publish to the gateway, and an administrator."""

    def __init__(
        self,
        plane: ControlPlane,
        client: Client,
        commands: Commands,
        session: aiohttp.ClientSession,
        directory: Path,
    ) -> None:
        self.plane = plane
        self.client = client
        self._commands = commands
        self._session = session
        self._directory = directory
        self.controller: Command

    async def modelplane(self, *arguments: str) -> str:
        """Run a command against the control plane to its end; return what it printed last."""
        return (await self.words(*arguments)).split()[-1]

    async def words(self, *arguments: str) -> str:
        """Run a command against the control plane to its end; return what it printed."""
        command = await self._commands.start(*arguments, "--kubeconfig", str(self.plane.kubeconfig))
        assert await asyncio.wait_for(command.process.wait(), PATIENCE_S) == 0, command.log
        return command.log

    async def start_controller(self) -> None:
        where = ("--kubeconfig", str(self.plane.kubeconfig), "--gateway-service", SERVICE)
        self.controller = await self._commands.start("controller", *where)

    async def restart_controller(self, number: signal.Signals) -> None:
        await self.controller.end(number)
        await self.start_controller()

    async def says(self, resource: Resource, name: str, type_: str, reason: str, namespace: str = "") -> None:
        """Wait until a condition has a reason."""

        async def said() -> bool:
            found = await self.client.get(resource, name, namespace or None)
            return condition_of(found or {}, type_).get("reason") == reason

        await eventually(said)

    async def pod(self, name: str, **environment: str) -> Pod:
        pod = Pod(self._commands, self.plane.kubeconfig, self._directory / name, self._session)
        await pod.start(**environment)
        return pod

    async def service(self, name: str, *ports: int) -> None:
        """Let a service lead to engines on these ports."""
        labels = {"service": name}
        for number, port in enumerate(ports):
            endpoint = _object("ModelEndpoint", f"{name}-{number}", TEAM)
            endpoint["metadata"]["labels"] = labels
            endpoint["spec"] = {"url": f"http://127.0.0.1:{port}", "rewritePath": "/"}
            await self.client.apply(endpoint)
        service = _object("ModelService", name, TEAM)
        service["spec"] = {"endpoints": [{"selector": {"matchLabels": labels}}]}
        await self.client.apply(service)

    async def exposed(self, **spec: Any) -> None:
        ports = [{"name": "http", "port": 80, "targetPort": 8080}]
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": SYSTEM},
            "spec": {"ports": ports, **spec},
        }
        await self.client.apply(service)

    async def gateway(self) -> Object:
        found = await self.client.get(fleet_resources.INFERENCE_GATEWAYS, "default")
        assert found is not None
        return found

    async def address(self, expected: str) -> None:
        async def published() -> bool:
            return (await self.gateway()).get("status", {}).get("address") == expected

        await eventually(published)

    async def published(self) -> dict[str, str]:
        """Return the ConfigMaps of the configuration, with their versions."""
        found = await self.client.list(resources.CONFIG_MAPS, SYSTEM, labels="modelplane.ai/gateway=default")
        return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in found.items}


def _object(kind: str, name: str, namespace: str = "") -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": {"name": name, **where}}


@pytest.fixture(scope="module")
def plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: here it is stopped, too."""
    return own_control_plane


@pytest.fixture
async def bench(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client.from_kubeconfig(str(plane.kubeconfig), known=fleet_resources.find_known)
        )
        session = await stack.enter_async_context(aiohttp.ClientSession())
        commands = Commands(tmp_path)
        stack.push_async_callback(commands.close)
        running = Bench(plane, client, commands, session, tmp_path)
        await install(client)
        for name in (SYSTEM, PRIVATE, TEAM):
            await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await client.apply(_object("InferenceGateway", "default") | {"spec": GATEWAY})
        await running.exposed(type="ClusterIP")
        await running.start_controller()
        await running.address(ADDRESS)
        yield running


@asynccontextmanager
async def engine(name: str) -> AsyncIterator[int]:
    """Run a server that says its name, at once or over two seconds; yield its port."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "slowly" not in request.query:
            return web.Response(text=name)
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(40):
            await response.write(b".")
            await asyncio.sleep(0.05)
        return response

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    port = next(free_ports())
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield port
    finally:
        await runner.cleanup()


async def test_every_envoy_serves_what_is_published_and_what_changes(bench: Bench) -> None:
    async with engine("a") as a, engine("b") as b:
        await bench.service("chat", a)
        first, second = await bench.pod("first"), await bench.pod("second")
        for pod in (first, second):
            await pod.serves("/team/chat/v1/models", "a")
        assert await first.check() == (0, "")
        await bench.service("chat", b)
        await asyncio.gather(*(pod.serves("/team/chat/v1/models", "b") for pod in (first, second)))
    found = await bench.client.get(fleet_resources.MODEL_SERVICES, "chat", TEAM)
    assert found is not None
    assert found["status"]["address"] == f"http://{ADDRESS}/team/chat"


async def test_the_next_tier_serves_while_the_first_fails_and_while_it_has_no_endpoint(bench: Bench) -> None:
    def endpoint(tier: str, port: int) -> Object:
        found = _object("ModelEndpoint", f"tiers-{tier}", TEAM)
        found["metadata"]["labels"] = {"tier": tier}
        return found | {"spec": {"url": f"http://127.0.0.1:{port}", "rewritePath": "/"}}

    service = _object("ModelService", "tiers", TEAM)
    entries = [
        {"priority": priority, "selector": {"matchLabels": {"tier": tier}}}
        for priority, tier in enumerate(("own", "next"))
    ]
    pod = await bench.pod("pod")
    async with engine("next") as following:
        await bench.client.apply(service | {"spec": {"endpoints": entries}})
        await bench.client.apply(endpoint("next", following))
        async with engine("own") as own:
            await bench.client.apply(endpoint("own", own))
            await pod.serves("/team/tiers/", "own")
        # Nothing has told the gateway that the engine is gone.
        assert [await pod.get("/team/tiers/") for _ in range(5)] == [(200, "next")] * 5
        await bench.client.delete(fleet_resources.MODEL_ENDPOINTS, "tiers-own", TEAM)

        async def told() -> bool:
            found = await bench.client.get(fleet_resources.MODEL_SERVICES, "tiers", TEAM)
            return "none of priority 0, 1 of priority 1" in condition_of(
                found or {}, "EndpointsResolved"
            ).get("message", "")

        await eventually(told)
        assert await pod.get("/team/tiers/") == (200, "next")
        async with engine("own") as own:
            await bench.client.apply(endpoint("own", own))
            await pod.serves("/team/tiers/", "own")


CLOSED = GATEWAY | {
    "authentication": "APIKey",
    "keyGrants": [{"namespace": TEAM}],
    "aliases": [{"name": "small", "service": f"{TEAM}/chat", "namespaces": [TEAM]}],
}
CHAT = "/team/chat/v1/models"


async def _until_status(pod: Pod, key: str, status: int) -> None:
    async def answered() -> bool:
        return (await pod.get(CHAT, key))[0] == status

    await eventually(answered)


async def _everything_published(bench: Bench) -> str:
    """Return all ConfigMaps of the gateway as text."""
    found = await bench.client.list(resources.CONFIG_MAPS, SYSTEM, labels="modelplane.ai/gateway=default")
    published = read(found.items)
    assert isinstance(published, Read)
    return "".join((*published.files.values(), *published.private))


@pytest.mark.usefixtures("module_library")
async def test_a_gateway_asks_for_keys_whatever_is_killed(bench: Bench) -> None:
    keys = fleet_resources.resource_of_kind(ModelKey)
    key = partial(bench.modelplane, "key")
    async with engine("a") as a:
        await bench.service("chat", a)
        pod = await bench.pod("keys")
        await pod.serves(CHAT, "a")
        await bench.says(fleet_resources.INFERENCE_GATEWAYS, "default", "Authenticated", "Open")
        first = await key("create", "first", "-n", TEAM)
        second = await key("create", "second", "-n", TEAM, "--requests-per-minute", "2")
        await bench.says(keys, "first", "Authenticated", "Open", TEAM)

        await bench.client.apply(_object("InferenceGateway", "default") | {"spec": CLOSED})
        await _until_status(pod, "", 401)
        await _until_status(pod, first, 200)
        assert [(await pod.get(CHAT, second))[0] for _ in range(3)] == [200, 200, 429]
        assert (await pod.get(CHAT, f"{first}x"))[0] == 401
        doubled = {"authorization": f"Bearer {first}", "x-api-key": f"{first}x"}
        async with bench._session.get(pod.url(CHAT), headers=doubled) as response:
            assert response.status == 400
        await bench.says(keys, "first", "Authenticated", "InForce", TEAM)
        await bench.says(fleet_resources.INFERENCE_GATEWAYS, "default", "Authenticated", "InForce")
        await bench.says(fleet_resources.INFERENCE_GATEWAYS, "default", "SettingsSupported", "InForce")
        assert (await bench.gateway())["status"]["url"] == f"http://{ADDRESS}/v1"

        # Nothing about keys is in a ConfigMap.
        published = await _everything_published(bench)
        assert "keys.json" in published
        assert not re.search("[0-9a-f]{64}", published)
        secrets = await bench.client.list(resources.SECRETS, PRIVATE, labels="modelplane.ai/gateway=default")
        assert len(secrets.items) == 2
        assert (pod._directory / "private" / "keys.json").stat().st_mode & 0o777 == 0o600

        # A stream goes on while its key is revoked.
        headers = {"authorization": f"Bearer {first}"}
        async with bench._session.get(pod.url(f"{CHAT}?slowly"), headers=headers) as stream:
            assert await stream.content.readexactly(1) == b"."
            await key("revoke", "first", "-n", TEAM)
            await _until_status(pod, first, 401)
            assert len(await stream.read()) == 39

        # The controllers and Envoy are killed: a start without the controllers is as closed.
        third = await key("create", "third", "-n", TEAM)
        await _until_status(pod, third, 200)
        await bench.controller.end(signal.SIGKILL)
        await pod.envoy.end(signal.SIGKILL)
        await pod.start_envoy()
        await _until_status(pod, third, 200)
        assert [(await pod.get(CHAT, each))[0] for each in ("", first, "none")] == [401, 401, 401]


@pytest.mark.usefixtures("module_library")
async def test_gateways_together_spend_a_budget_which_outlives_them(bench: Bench) -> None:
    async with running_model() as model:
        await bench.service("chat", model.port)
        await bench.client.apply(_object("InferenceGateway", "default") | {"spec": CLOSED})
        first, second = await bench.pod("first"), await bench.pod("second")
        key = await bench.modelplane("key", "create", "daily", "-n", TEAM, "--tokens-per-day", "330")
        for pod in (first, second):
            await _until_status(pod, key, 200)
        # Neither of them alone has used it: an answer has 33 tokens.
        while sum(each["path"] == "/v1/models" for each in model.asked) < 10:
            await asyncio.gather(*(pod.get(CHAT, key) for pod in (first, second)))
        for pod in (first, second):
            await _until_status(pod, key, 429)
        keys = fleet_resources.resource_of_kind(ModelKey)
        await bench.says(keys, "daily", "WithinBudget", "Spent", TEAM)
        assert "100 % of 330 tokensPerDay" in await bench.words("key", "list", "-n", TEAM)

        # What is counted outlives the gateways and the controllers.
        await first.companion.end(signal.SIGKILL)
        await first.envoy.end(signal.SIGKILL)
        await bench.restart_controller(signal.SIGKILL)
        third = await bench.pod("third")
        await _until_status(third, key, 429)
        assert {(await pod.get(CHAT, key))[0] for pod in (second, third) for _ in range(5)} == {429}
        found = await bench.client.list(resources.CONFIG_MAPS, PRIVATE, labels=ledgers.SELECTOR)
        assert len(found.items) == 4, "a day and a month of two gateways"


@pytest.mark.usefixtures("module_library")
async def test_a_tier_that_has_spent_its_budget_is_closed_and_the_rest_goes_on(bench: Bench) -> None:
    async with running_model() as model, engine("own") as own:
        for name, port in (("paid", model.port), ("free", own)):
            endpoint = _object("ModelEndpoint", f"capped-{name}", TEAM)
            endpoint["metadata"]["labels"] = {"capped": name}
            endpoint["spec"] = {"url": f"http://127.0.0.1:{port}", "rewritePath": "/"}
            await bench.client.apply(endpoint)
        entries = [
            {"selector": {"matchLabels": {"capped": "paid"}}, "budget": {"tokensPerDay": 100}},
            {"selector": {"matchLabels": {"capped": "free"}}, "priority": 1},
        ]
        service = _object("ModelService", "capped", TEAM) | {"spec": {"endpoints": entries}}
        await bench.client.apply(_object("InferenceGateway", "default") | {"spec": GATEWAY})
        await bench.client.apply(service)
        pod = await bench.pod("capped")
        services = fleet_resources.MODEL_SERVICES
        await bench.says(services, "capped", "WithinBudget", "Available", TEAM)
        await pod.serves("/team/capped/v1/models", "own")
        assert len(model.asked) >= 4, "100 tokens are four answers of 33"
        await bench.says(services, "capped", "WithinBudget", "Spent", TEAM)
        asked = len(model.asked)
        # The controllers begin anew: the tier stays closed.
        await bench.restart_controller(signal.SIGKILL)
        for _ in range(20):
            assert await pod.get("/team/capped/v1/models") == (200, "own")
            await asyncio.sleep(0.1)
        assert len(model.asked) == asked
        entries[0]["budget"] = {"tokensPerDay": 1_000_000}
        await bench.client.apply(service)
        await bench.says(services, "capped", "WithinBudget", "Available", TEAM)


async def test_without_the_module_a_gateway_that_is_to_ask_for_keys_serves_nobody(
    bench: Bench, tmp_path: Path
) -> None:
    # As a wheel that was built without the module: the sources are not beside it.
    shutil.copytree(Path(modelplane.__file__).parent, tmp_path / "modelplane")
    lacking = {"PYTHONPATH": str(tmp_path)}
    async with engine("a") as a:
        await bench.service("chat", a)
        pod = await bench.pod("without", **lacking)
        await pod.serves(CHAT, "a")
        await bench.controller.end()
        kubeconfig = ("--kubeconfig", str(bench.plane.kubeconfig))
        await bench._commands.start("controller", *kubeconfig, "--gateway-service", SERVICE, **lacking)
        await bench.client.apply(_object("InferenceGateway", "default") | {"spec": CLOSED})
        for condition in ("Authenticated", "SettingsSupported"):
            await bench.says(fleet_resources.INFERENCE_GATEWAYS, "default", condition, "ModuleMissing")
        # There is no URL for all models where nothing reads the model of a request.
        assert "url" not in (await bench.gateway())["status"]
        await _until_status(pod, "", 0)


async def test_a_gateway_without_configuration_is_open_and_answers_404(bench: Bench) -> None:
    pod = Pod(bench._commands, bench.plane.kubeconfig, bench._directory / "alone", bench._session)
    await pod.start_envoy()

    async def open_() -> bool:
        return (await pod.get("/team/chat"))[0] == 404

    await eventually(open_)
    assert await pod.check() == (0, "")
    await pod.envoy.end()
    status, words = await pod.check()
    assert status == 1
    assert words.startswith("Error: cannot query Envoy")


async def test_an_endpoint_where_the_gateway_must_not_go_gets_no_request_and_says_why(bench: Bench) -> None:
    async with engine("a") as a:
        await bench.service("metadata", a)
        pod = await bench.pod("pod")
        await pod.serves("/team/metadata/", "a")
        endpoint = _object("ModelEndpoint", "metadata-0", TEAM)
        for url in (
            "http://169.254.169.254/latest",
            f"http://127.0.0.2:{a}",
            f"http://{ADDRESS}/team/metadata",
        ):
            await bench.client.apply(
                endpoint
                | {"spec": {"url": url}}
                | {"metadata": {**endpoint["metadata"], "labels": {"service": "metadata"}}}
            )

            async def refused(url: str = url) -> bool:
                found = await bench.client.get(fleet_resources.MODEL_ENDPOINTS, "metadata-0", TEAM)
                said = condition_of(found or {}, "RoutingReady")
                return url in said.get("message", "") and said["reason"] == "DestinationRefused"

            await eventually(refused)

            async def unserved() -> bool:
                status, answer = await pod.get("/team/metadata/")
                return status == 503 and "is not usable" in answer

            await eventually(unserved)


async def test_controllers_that_restart_publish_nothing(bench: Bench) -> None:
    async with engine("a") as a:
        await bench.service("kept", a)
        pod = await bench.pod("pod")
        await pod.serves("/team/kept/", "a")
    [controller] = (each for each in bench._commands._started if "controller" in each._log.name)
    assert await controller.end() == 0
    before = await bench.published()
    again = await bench._commands.start(
        "controller", "--kubeconfig", str(bench.plane.kubeconfig), "--gateway-service", SERVICE
    )

    async def watching() -> bool:
        return "watching" in again.log

    await eventually(watching)
    await asyncio.sleep(1)
    assert await bench.published() == before


async def test_requests_go_on_while_the_api_server_is_away_whatever_is_restarted(bench: Bench) -> None:
    async with engine("a") as a, engine("b") as b:
        await bench.service("lasting", a)
        pod = await bench.pod("pod")
        await pod.serves("/team/lasting/", "a")
        lifecycle.stop(bench.plane.home)
        with pytest.raises(errors.Unreachable):
            await bench.client.list(resources.NAMESPACES)
        assert (await pod.get("/team/lasting/"), await pod.ready()) == ((200, "a"), True)
        await pod.companion.end(signal.SIGKILL)
        assert await pod.get("/team/lasting/") == (200, "a")
        await pod.start_companion()
        await eventually(pod.ready)
        await pod.envoy.end(signal.SIGKILL)
        await pod.start_envoy()
        await pod.serves("/team/lasting/", "a")
        await eventually(pod.ready)
        lifecycle.start(bench.plane.home, bench.plane.binary, CONTROL_PLANE)
        await lifecycle.wait_until_running(bench.plane.home, CONTROL_PLANE, PATIENCE_S, lambda _record: None)
        await bench.service("lasting", b)
        async with asyncio.timeout(PATIENCE_S):
            while await pod.get("/team/lasting/") != (200, "b"):
                assert (await pod.get("/team/lasting/"))[0] == 200
                await asyncio.sleep(0.1)


async def test_a_pod_that_is_to_end_is_not_ready_first_and_lets_nobody_down(bench: Bench) -> None:
    async with engine("a") as a:
        await bench.service("drained", a)
        pod = await bench.pod("pod")
        await pod.serves("/team/drained/", "a")
        slow = asyncio.create_task(pod.get("/team/drained/?slowly"))
        await asyncio.sleep(0.2)
        pod.companion.process.send_signal(signal.SIGTERM)

        async def draining() -> bool:
            return await pod.readiness() == (503, "the gateway is about to end")

        await eventually(draining)
        # A load balancer may not have noticed yet.
        assert await pod.get("/team/drained/") == (200, "a")
        assert await asyncio.wait_for(pod.companion.process.wait(), PATIENCE_S) == 0
        assert await slow == (200, "." * 40)


async def test_the_address_is_that_of_the_load_balancer_once_it_has_one(bench: Bench) -> None:
    await bench.client.delete(resources.SERVICES, SERVICE, SYSTEM)
    await bench.client.delete(fleet_resources.INFERENCE_GATEWAYS, "default")
    await bench.client.apply(_object("InferenceGateway", "default") | {"spec": GATEWAY})

    async def said(words: str) -> None:
        async def says() -> bool:
            return words in condition_of(await bench.gateway(), "ControllerReady").get("message", "")

        await eventually(says)

    await said(f'the gateway has no Service "{SYSTEM}/{SERVICE}"')
    await bench.exposed(type="LoadBalancer")
    await said("of type LoadBalancer has no address yet")
    assert "address" not in (await bench.gateway())["status"]
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}
    await bench.client.patch(resources.SERVICES, SERVICE, status, SYSTEM, subresource="status")
    await bench.address("192.0.2.7")


async def test_a_pod_s_service_account_is_identity_enough(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "pod", "namespace": TEAM}}
    await bench.client.apply(account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"{resources.SERVICE_ACCOUNTS.build_path(TEAM, 'pod')}/token"
    token = (await bench.client._request("POST", path, None, request))["status"]["token"]
    server = aiohttp.client.URL(str(bench.client._http.base_url))
    pki = bench.plane.home.pki
    for name, content in (
        ("token", token),
        ("namespace", TEAM),
        ("ca.crt", (pki / "ca.crt").read_text()),
    ):
        (tmp_path / name).write_text(content)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(server.host))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    async with Client.connect_in_cluster(account=tmp_path) as pod:
        with pytest.raises(errors.Forbidden, match=f'User "system:serviceaccount:{TEAM}:pod" cannot list'):
            await pod.list(resources.SECRETS)
