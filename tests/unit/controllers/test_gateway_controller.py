import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from modelplane.api import labels
from modelplane.compose.composition import Blocked, Composition, Requirement, Unknown
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.gateway.fleet_routes import Composed
from modelplane.controllers.gateway.gateway_admission import Keys
from modelplane.controllers.gateway.gateway_controller import GatewayController, GatewaySources
from modelplane.controllers.gateway.named_secrets import Certificates, ProviderCredentials
from modelplane.controllers.interests import OwnerKey
from modelplane.gateway import tokens
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.module_files.keys import KeyFile
from modelplane.gateway.route_table import Backend, CredentialReference, Front, Route
from modelplane.gateway.tokens import GatewayKeys
from modelplane.gateway.usage.ledger import Ledger
from modelplane.gateway.usage.load import Load
from modelplane.kube.resources import Object
from modelplane.proxy.interface import GatewayAddress, Proxy
from modelplane.proxy.proxies import GatewayDirectory
from support.certificates import authority, server_pair

pytestmark = pytest.mark.virtual_time


class Bench:
    """A gateway that keeps what it would write."""

    def __init__(self, clusters: Clusters) -> None:
        self.compositions: dict[str, Composition | Blocked] = {}
        """Those of the services, by name."""
        self.written: Mapping[str, str] = {}
        self.writes = 0
        self.fails: Exception | None = None
        self.opened = 0
        self.settled: list[OwnerKey] = []
        self.destinations: Destinations | Blocked = Destinations(is_local=True)
        self.front: Front | Blocked = Front()
        self.inference_gateway: dict[str, Any] | None = None
        self.secrets: dict[str, dict[str, Any]] = {}
        self.secret: tuple[Object, ...] | Unknown = ()
        self.keys: GatewayKeys | None = GatewayKeys()
        self.sent: list[GatewayKeys] = []
        self._clusters = clusters
        self.gateway = self.in_front_of(GatewayDirectory(Path("unused"), "127.0.0.1:8080", self._write))

    def in_front_of(self, proxy: Proxy) -> GatewayController:
        self.gateway = GatewayController(
            proxy,
            dial=lambda address: address,
            compose=self._compose,
            clusters=self._clusters,
            opened=self._count,
            settled=self.settled.append,
            settings=GatewaySources(
                destinations=lambda: self.destinations,
                front=self._admitted,
                written=lambda: None,
                certificates=Certificates(lambda: self.inference_gateway, self.secrets.get),
                credentials=ProviderCredentials(self._find, lambda _path: ""),
                keys=cast("Keys", SimpleNamespace(current=lambda: self.keys, sent=self.sent.append)),
            ),
        )
        return self.gateway

    def has(self, name: str, composition: Composition | Blocked) -> None:
        """Let a service have a composition, and tell the gateway controller of it."""
        self.compositions[name] = composition
        self.gateway.changed(_service(name), is_gone=False)

    def _compose(self, key: OwnerKey) -> Composed | None:
        composition = self.compositions.get(key.name)
        return Composed((), composition) if composition else None

    async def _admitted(self) -> Front | Blocked:
        return self.front

    def _find(self, _requirement: Requirement) -> tuple[Object, ...] | Unknown:
        return self.secret

    def _count(self) -> None:
        self.opened += 1

    def _write(self, _directory: Path, files: Mapping[str, str]) -> bool:
        self.writes += 1
        if self.fails:
            raise self.fails
        self.written = files
        return True

    @property
    def listeners(self) -> list[str]:
        return [each["name"] for each in json.loads(self.written["lds.json"])["resources"]]

    @property
    def routes(self) -> list[str]:
        [configuration] = json.loads(self.written["routes/front-door.json"])["resources"]
        names = [route["name"] for host in configuration["virtual_hosts"] for route in host["routes"]]
        assert names[:2] == ["ambiguous-path", "loop"]
        return names[2:]

    async def look(self) -> None:
        """Let the gateway controller look again."""
        before = self.writes
        self.gateway.touch()
        await asyncio.sleep(1)
        assert self.writes > before


@pytest.fixture
def bench(clusters: Clusters) -> Bench:
    return Bench(clusters)


@asynccontextmanager
async def _running(bench: Bench) -> AsyncIterator[None]:
    task = asyncio.create_task(bench.gateway.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _service(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelService",
        "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "5"},
    }


def _gateway(port: int = 8081) -> dict[str, Any]:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {
            "name": "inference-gateway",
            "namespace": "modelplane-system",
            "uid": "g",
            "resourceVersion": "5",
        },
        "spec": {"gatewayClassName": "modelplane", "listeners": [{"port": port}]},
        "status": {"addresses": [{"value": "127.0.0.1"}]},
    }


def _route(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "r", "namespace": "n", "uid": "r", "resourceVersion": "5"},
        "spec": {
            "parentRefs": [{"name": "inference-gateway", "namespace": "modelplane-system"}],
            **spec,
        },
    }


def _routes(name: str) -> Composition:
    return Composition(routes=(Route(f"n/{name}", f"/n/{name}/", unavailable="nothing serves"),))


SECURED = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceGateway",
    "metadata": {"name": "default", "uid": "g"},
    "spec": {"backend": "Envoy", "tls": {"certificateRefs": [{"name": "front"}]}},
}


def _certificate(folder: Path) -> dict[str, Any]:
    """Return the Secret that the gateway refers to."""
    authority(folder)
    chain, key = server_pair(folder, "models.example")
    data = {"tls.crt": chain, "tls.key": key}
    return {
        "type": "kubernetes.io/tls",
        "metadata": {"name": "front"},
        "data": {name: base64.b64encode(pem.encode()).decode() for name, pem in data.items()},
    }


async def test_the_routes_are_those_of_the_compositions(bench: Bench) -> None:
    bench.has("b", _routes("b"))
    bench.has("a", _routes("a"))
    async with _running(bench):
        await bench.look()
        assert bench.routes == ["n/a", "n/b", "not-found"]
        del bench.compositions["a"]
        bench.gateway.changed(_service("a"), is_gone=False)
        await bench.look()
        assert bench.routes == ["n/b", "not-found"]


async def test_a_service_that_cannot_be_composed_is_named_once_and_keeps_its_routes(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.has("good", _routes("good"))
    bench.has("new", Blocked("cannot read ModelService"))
    with caplog.at_level(logging.WARNING):
        async with _running(bench):
            await bench.look()
            bench.has("good", Blocked("no longer"))
            await bench.look()
            await bench.look()
    assert bench.routes == ["n/good", "not-found"]
    assert caplog.messages == [
        "ModelService n/new is not served: cannot read ModelService",
        "ModelService n/good keeps its routes: no longer",
    ]


async def test_a_route_that_asks_for_too_much_is_named_once(
    bench: Bench, east: Any, clusters: Clusters, connected: Any, caplog: pytest.LogCaptureFixture
) -> None:
    east.has([_gateway(), _route(hostnames=["a.example"])])
    await connected(clusters, "east", east)
    with caplog.at_level(logging.WARNING):
        async with _running(bench):
            await bench.look()
            await bench.look()
    assert caplog.text.count("HTTPRoute n/r of cluster east is not served: spec.hostnames") == 1


KEYS = GatewayKeys({1: b"k" * 32}, required=1)


@pytest.mark.parametrize(
    ("owner", "keys", "is_required"),
    [
        pytest.param("ModelReplica", KEYS, True, id="of a replica"),
        pytest.param("ModelReplica", replace(KEYS, required=0), False, id="not required yet"),
        pytest.param("", KEYS, False, id="of somebody else, to whom nothing sends tokens"),
    ],
)
async def test_on_one_machine_the_route_of_a_replica_needs_its_token(
    bench: Bench,
    east: Any,
    clusters: Clusters,
    connected: Any,
    owner: str,
    keys: GatewayKeys,
    *,
    is_required: bool,
) -> None:
    route = _route(rules=[{"matches": [{"path": {"type": "PathPrefix", "value": "/n/r/"}}]}])
    route["metadata"]["annotations"] = {labels.OWNER_KIND: owner}
    east.has([_gateway(), route])
    await connected(clusters, "east", east)
    bench.keys = keys
    async with _running(bench):
        await bench.look()
    [configuration] = json.loads(bench.written["routes/cluster-east.json"])["resources"]
    [found] = [each for each in configuration["virtual_hosts"][0]["routes"] if each["name"] == "n/r"]
    token = tokens.find_required(keys, "n/r")
    wanted = [{"name": token.header, "string_match": {"exact": token.value}}] if token else None
    assert found["match"].get("headers") == (wanted if is_required else None)
    assert bench.sent[-1] == keys


async def test_nothing_is_written_before_the_keys_are_known(bench: Bench) -> None:
    bench.keys = None
    async with _running(bench):
        bench.gateway.touch()
        await asyncio.sleep(1)
        assert bench.writes == 0
        bench.keys = KEYS
        await asyncio.sleep(10)
    assert bench.writes > 0


async def test_a_service_is_told_when_the_configuration_in_force_leads_to_an_endpoint(bench: Bench) -> None:
    key, other = OwnerKey("ModelService", "n", "b"), OwnerKey("ModelService", "n", "other")
    bench.has("other", _routes("other"))
    assert bench.gateway.has_loaded(other), "before the first write nothing is known: no status changes"
    async with _running(bench):
        await bench.look()
        bench.fails = OSError("no space left on device")
        backend = Backend("n/b", (("203.0.113.1", 80),))
        bench.has("b", Composition(routes=(Route("n/b", "/n/b/", (backend,)),)))
        await bench.look()
        assert (bench.gateway.has_loaded(key), bench.settled) == (False, [])
        bench.fails = None
        await bench.look()
    assert (bench.gateway.has_loaded(key), bench.settled) == (True, [key])
    assert not bench.gateway.has_loaded(other), "its route leads nowhere"


async def test_a_write_that_fails_is_tried_again(bench: Bench) -> None:
    bench.fails = OSError("no space left on device")
    async with _running(bench):
        await bench.look()
        assert bench.gateway.address == GatewayAddress()
        bench.fails = None
        await asyncio.sleep(10)
    assert (bench.gateway.address.address, bench.opened) == ("127.0.0.1:8080", 1)
    assert bench.listeners == ["front-door"]


async def test_a_cluster_that_is_read_anew_keeps_its_listener(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    east.has([_gateway()])
    first = await connected(clusters, "east", east)
    async with _running(bench):
        await bench.look()
        assert bench.listeners == ["cluster-east", "front-door"]
        await first.close()
        east.silent = True
        second = await connected(clusters, "east", east, read=False)
        await bench.look()
        assert bench.listeners == ["cluster-east", "front-door"]
        clusters.disconnect("east")
        await bench.look()
        assert bench.listeners == ["front-door"]
    await second.close()


async def test_nothing_is_written_while_a_cluster_is_being_read_for_the_first_time(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    east.silent = True
    await connected(clusters, "east", east, read=False)
    async with _running(bench):
        await asyncio.sleep(10)
        assert bench.writes == 0
        clusters.disconnect("east")
        await bench.look()
    assert bench.listeners == ["front-door"]


async def test_a_port_is_served_for_one_cluster_only(
    bench: Bench, east: Any, clusters: Clusters, connected: Any, caplog: pytest.LogCaptureFixture
) -> None:
    east.has([_gateway(8081)])
    await connected(clusters, "east", east)
    await connected(clusters, "west", east)
    async with _running(bench):
        await bench.look()
    assert bench.listeners == ["cluster-east", "front-door"]
    assert "cluster-west is not served: its gateway's port 8081 is that of cluster-east" in caplog.text


class Elsewhere:
    """A proxy that is no cluster's gateway, and finds its own address in time."""

    listens = ("0.0.0.0", 8080)
    serves_clusters = False
    usage_log = ""
    gateways = 1
    ledger_log = ""
    informers = ()

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.found = GatewayAddress(problem="no address yet")

    async def bring(self, files: Mapping[str, str]) -> bool:
        return self._bench._write(Path("unused"), files)

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
        return self.found


async def test_a_gateway_that_is_elsewhere_leaves_the_gateways_of_clusters_alone(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    gateway = _gateway()
    del gateway["status"]
    east.has([gateway])
    await connected(clusters, "east", east)
    bench.in_front_of(Elsewhere(bench))
    async with _running(bench):
        await bench.look()
    assert (bench.listeners, east.writes) == (["front-door"], [])


async def test_a_gateway_that_is_elsewhere_waits_for_no_cluster(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    east.silent = True
    await connected(clusters, "east", east, read=False)
    bench.in_front_of(Elsewhere(bench))
    async with _running(bench):
        await bench.look()
    assert bench.listeners == ["front-door"]


async def test_an_address_that_comes_later_is_told(bench: Bench) -> None:
    proxy = Elsewhere(bench)
    bench.in_front_of(proxy)
    async with _running(bench):
        await bench.look()
        assert (bench.gateway.address, bench.opened) == (GatewayAddress(problem="no address yet"), 1)
        proxy.found = GatewayAddress("192.0.2.1")
        await bench.look()
        await bench.look()
    assert (bench.gateway.address, bench.opened) == (GatewayAddress("192.0.2.1"), 2)


class WithoutModule(Elsewhere):
    """A proxy whose Envoy lacks the module, and that counts how often it is written to."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.found = GatewayAddress("192.0.2.1", without_module="no module")
        self.written = 0

    async def bring(self, _files: Mapping[str, str]) -> bool:
        self.written += 1
        return False


async def test_a_missing_module_is_looked_for_now_and_then_however_often_routes_change(bench: Bench) -> None:
    proxy = WithoutModule(bench)
    gateway = bench.in_front_of(proxy)
    async with _running(bench):
        for _ in range(20):
            gateway.touch()
            await asyncio.sleep(0.3)
        changes = proxy.written
        await asyncio.sleep(100)
    assert 9 <= proxy.written - changes <= 11


async def test_the_address_says_whether_the_configuration_asks_for_keys(bench: Bench) -> None:
    bench.in_front_of(Elsewhere(bench))
    async with _running(bench):
        await bench.look()
        assert not bench.gateway.address.asks_for_keys
        bench.front = Front(keys=KeyFile())
        await bench.look()
        assert bench.gateway.address.asks_for_keys


async def test_a_gateway_whose_certificate_is_missing_is_closed_and_opens_once_it_is_there(
    bench: Bench, tmp_path: Path
) -> None:
    bench.in_front_of(Elsewhere(bench))
    bench.inference_gateway = SECURED
    async with _running(bench):
        await bench.look()
        assert "does not exist" in bench.gateway.address.problem
        assert "tls/front.json" not in bench.written
        secret = bench.secrets["front"] = _certificate(tmp_path)
        writes = bench.writes
        bench.gateway.secret_changed({"metadata": {"name": "other"}})
        await asyncio.sleep(1)
        assert bench.writes == writes
        bench.gateway.secret_changed(secret)
        await asyncio.sleep(1)
        assert "tls/front.json" in bench.written
    assert bench.gateway.address == GatewayAddress(problem="no address yet")


@pytest.mark.parametrize("turns", range(6))
async def test_it_ends_when_it_is_cancelled_however_soon_after_a_change(
    bench: Bench, tmp_path: Path, turns: int
) -> None:
    bench.inference_gateway = SECURED
    bench.secrets["front"] = _certificate(tmp_path)
    task = asyncio.create_task(bench.gateway.run())
    try:
        await bench.look()
        bench.gateway.touch()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=60)
        assert done == {task}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_first_configuration_waits_for_the_secrets_that_routes_name(bench: Bench) -> None:
    reference = CredentialReference("n", "openai", "apiKey", "authorization", "api.openai.com")
    backend = Backend("n/outside", (("api.openai.com", 443),), credential=reference)
    bench.has("a", Composition(routes=(Route("n/a", "/n/a/", (backend,)),)))
    bench.secret = Unknown("it is still being read", loading=True)
    async with _running(bench):
        await asyncio.sleep(10)
        assert bench.writes == 0
        bench.secret = ()
        await bench.look()
        bench.secret = Unknown("it is still being read", loading=True)
        await bench.look()
