"""Routes follow what the owners' compositions hold, whatever becomes of the writes."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from modelplane.api.meta import API_VERSION
from modelplane.compose.composition import Blocked, Composition, Requirement
from modelplane.controllers.gateway.fleet_routes import Composed, Routes
from modelplane.controllers.interests import OwnerKey
from modelplane.controllers.manager import Manager
from modelplane.gateway.envoy.envoy_routes import list_clusters
from modelplane.gateway.route_table import Backend, Route
from modelplane.gateway.usage.ledger import Ledger
from modelplane.gateway.usage.load import Load
from modelplane.kube.client import Client
from modelplane.proxy.interface import GatewayAddress

ENDPOINTS = Requirement("endpoints", API_VERSION, "ModelEndpoint", namespace="n")


def _object(kind: str, name: str, spec: Any = None, version: int = 5, **metadata: Any) -> dict[str, Any]:
    own = {
        "name": name,
        "namespace": "n",
        "uid": f"{kind}-{name}",
        "resourceVersion": f"{version}",
        "generation": 1,
    }
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {**own, **metadata}, "spec": spec or {}}


def _route(name: str, said: str = "") -> Composition:
    return Composition(routes=(Route(f"n/{name}", f"/n/{name}/", unavailable=said),))


class Bench:
    """Routes of owners whose compositions a test writes."""

    def __init__(self) -> None:
        self.compositions: dict[str, Composition | Blocked | Exception] = {}
        self.composed: list[str] = []
        self.changes = 0
        self.routes = Routes(self._compose)

    def _compose(self, key: OwnerKey) -> Composed | None:
        self.composed.append(key.name)
        found = self.compositions.get(key.name)
        if isinstance(found, Exception):
            raise found
        return Composed((ENDPOINTS,), found) if found else None

    def changed(self, *names: str, kind: str = "ModelService") -> list[bool]:
        self.changes += 1
        labels = {"change": f"{self.changes}"}
        return [self.routes.changed(_object(kind, name, labels=labels), is_gone=False) for name in names]

    async def update(self) -> list[str]:
        """Compose what is stale; return the owners that were."""
        self.composed = []
        await self.routes.update()
        return self.composed


async def test_an_owner_is_composed_when_it_or_what_it_requires_changes() -> None:
    bench = Bench()
    bench.compositions = {"a": _route("a"), "b": _route("b")}
    assert bench.changed("e", kind="ModelEndpoint") == [False], "no owner has said yet that it requires it"
    assert bench.changed("b", "a", "a") == [True, True, True]
    assert await bench.update() == ["b", "a"]
    assert await bench.update() == []
    assert [route.name for route in bench.routes] == ["n/a", "n/b"]
    bench.compositions["a"] = _route("a", "nothing serves")
    assert bench.changed("e", kind="ModelEndpoint") == [True]
    assert await bench.update() == ["b", "a"]
    assert [route.unavailable for route in bench.routes] == ["nothing serves", ""]


async def test_a_status_of_an_endpoint_composes_nothing_and_its_end_does() -> None:
    bench = Bench()
    bench.compositions = {"a": _route("a")}
    bench.changed("a")
    await bench.update()
    item = _object("ModelEndpoint", "e", {"url": "http://10.0.0.1/"})
    for change, is_news in (
        (item, True),
        ({**item, "status": {"conditions": []}}, False),
        (_object("ModelEndpoint", "e", {"url": "http://10.0.0.2/"}), True),
        (_object("ModelEndpoint", "e", {"url": "http://10.0.0.2/"}, labels={"a": "b"}), True),
        (_object("ModelEndpoint", "e", {"url": "http://10.0.0.2/"}, annotations={"a": "b"}), True),
        (_object("ModelEndpoint", "e", {"url": "http://10.0.0.2/"}, uid="another"), True),
        (_object("ModelEndpoint", "e", {"url": "http://10.0.0.2/"}, deletionTimestamp="now"), True),
    ):
        assert bench.routes.changed(change, is_gone=False) is is_news
    assert bench.routes.changed(change, is_gone=True), "its last state is known, but not that it is gone"


async def test_namespaces_take_turns_and_a_turn_ends_before_all_are_composed() -> None:
    composed: list[OwnerKey] = []

    def slow(key: OwnerKey) -> Composed:
        composed.append(key)
        time.sleep(0.02)
        return Composed((), _route(key.name))

    routes = Routes(slow)
    for number in range(50):
        routes.changed(_object("ModelService", f"s-{number}"), is_gone=False)
    routes.changed(_object("ModelService", "victim", namespace="other"), is_gone=False)
    assert await routes.update(), "some wait for the next turn"
    assert [key.namespace for key in composed][:3] == ["n", "other", "n"]
    while await routes.update():
        pass
    assert len(composed) == len(set(composed)) == 51


async def test_an_owner_that_is_gone_has_no_route_and_requires_nothing() -> None:
    bench = Bench()
    bench.compositions = {"a": _route("a")}
    bench.changed("a", "never-seen")
    await bench.update()
    bench.compositions = {}
    bench.changed("a")
    await bench.update()
    assert (list(bench.routes), bench.routes.problems) == ([], {})
    assert bench.changed("e", kind="ModelEndpoint") == [False]
    bench.compositions = {"a": _route("a")}
    bench.changed("a")
    await bench.update()
    assert [route.name for route in bench.routes] == ["n/a"]


async def test_an_owner_that_cannot_be_composed_keeps_its_routes_until_it_can() -> None:
    bench = Bench()
    bench.compositions = {"a": _route("a"), "new": Blocked("no word")}
    bench.changed("a", "new")
    await bench.update()
    bench.compositions["a"] = Blocked("cannot read it")
    bench.changed("a")
    await bench.update()
    assert [route.name for route in bench.routes] == ["n/a"]
    assert bench.routes.problems == {
        "ModelService n/new is not served": "no word",
        "ModelService n/a keeps its routes": "cannot read it",
    }
    bench.compositions = {"a": Composition(), "new": _route("new")}
    bench.changed("a", "new")
    await bench.update()
    assert ([route.name for route in bench.routes], bench.routes.problems) == (["n/new"], {})


async def test_a_bug_in_one_composition_takes_no_route_from_any(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.compositions = {"a": _route("a"), "b": _route("b")}
    bench.changed("a", "b")
    await bench.update()
    bench.compositions = {"a": ZeroDivisionError(), "b": _route("b", "nothing serves")}
    bench.changed("a", "b")
    with caplog.at_level(logging.ERROR):
        await bench.update()
    assert [route.unavailable for route in bench.routes] == ["", "nothing serves"]
    assert caplog.messages == ["cannot compose the routes of ModelService n/a: a bug"]


class Recorded:
    """A proxy that keeps what it would be told."""

    listens = ("0.0.0.0", 8080)
    serves_clusters = False
    usage_log = ""
    gateways = 1
    ledger_log = ""
    informers = ()

    def __init__(self) -> None:
        self.backends: dict[str, list[str]] = {}
        """Of each route, once any are written."""
        self.writes = 0

    async def bring(self, files: Mapping[str, str]) -> bool:
        [configuration] = json.loads(files["routes/front-door.json"])["resources"]
        routes = (route for host in configuration["virtual_hosts"] for route in host["routes"])
        self.backends = {
            route["name"]: list(list_clusters(route))
            for route in routes
            if route["name"] not in ("ambiguous-path", "loop", "not-found")
        }
        self.writes += 1
        return True

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
        return GatewayAddress("192.0.2.1")


SERVICES = 12
SERVING = {f"n/s-{number}": [f"front-door/n/e-{number}"] for number in range(SERVICES)}


def _service(number: int, version: int = 5, **metadata: Any) -> dict[str, Any]:
    spec = {"endpoints": [{"selector": {"matchLabels": {"model": str(number)}}}]}
    return _object("ModelService", f"s-{number}", spec, version, **metadata)


def _endpoint(number: int, version: int = 5, **annotations: str) -> dict[str, Any]:
    spec = {"url": f"http://192.0.2.{number}:80"}
    labels = {"model": str(number)}
    return _object("ModelEndpoint", f"e-{number}", spec, version, labels=labels, annotations=annotations)


@pytest.fixture
def stuck(plane: Any) -> Any:
    """A control plane that lists and watches, and answers no write."""
    plane.stuck = True
    return plane


@asynccontextmanager
async def _controllers(client: Client) -> AsyncIterator[tuple[Manager, Recorded]]:
    proxy = Recorded()
    manager = Manager(client, proxy=proxy, dial=lambda address: address)
    task = asyncio.create_task(manager.run())
    try:
        yield manager, proxy
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.virtual_time
async def test_a_control_plane_that_answers_no_write_delays_no_route(stuck: Any, client: Client) -> None:
    numbers = range(SERVICES)
    stuck.has([*map(_service, numbers), *map(_endpoint, numbers)])
    async with _controllers(client) as (manager, proxy):
        await asyncio.sleep(1)
        assert (proxy.backends, proxy.writes) == (SERVING, 1)
        assert stuck.writes, "the reconciles wait for an answer"
        endpoints, services = (manager._informers[kind] for kind in ("ModelEndpoint", "ModelService"))
        endpoints.remember(_endpoint(0, 2000, **{"modelplane.ai/draining": "true"}))
        await asyncio.sleep(0.1)
        assert proxy.backends == SERVING | {"n/s-0": []}
        endpoints._drop(_endpoint(11))
        services._drop(_service(5))
        await asyncio.sleep(0.1)
        left = SERVING | {"n/s-0": [], "n/s-11": []}
        del left["n/s-5"]
        assert proxy.backends == left


@pytest.mark.virtual_time
async def test_controllers_that_start_serve_all_services_but_those_that_they_cannot_read(
    stuck: Any, client: Client
) -> None:
    bad = _object("ModelService", "s-3", {"endpoints": "none"})
    stuck.has(
        [bad, *(_service(each) for each in range(SERVICES) if each != 3), *map(_endpoint, range(SERVICES))]
    )
    async with _controllers(client) as (_, proxy):
        while not proxy.writes:
            await asyncio.sleep(0.01)
        expected = dict(SERVING)
        del expected["n/s-3"]
        assert (proxy.backends, proxy.writes) == (expected, 1), "the first write has every route"


@pytest.mark.virtual_time
async def test_a_service_that_can_no_longer_be_read_keeps_its_route(stuck: Any, client: Client) -> None:
    stuck.has([_service(0), _endpoint(0)])
    async with _controllers(client) as (manager, proxy):
        await asyncio.sleep(1)
        manager._informers["ModelService"].remember(_object("ModelService", "s-0", {"endpoints": 1}, 9000))
        await asyncio.sleep(1)
        assert proxy.backends == {"n/s-0": SERVING["n/s-0"]}
        manager._informers["ModelService"].remember(_service(0, 9001))
        manager._informers["ModelEndpoint"]._drop(_endpoint(0))
        await asyncio.sleep(1)
        assert proxy.backends == {"n/s-0": []}


@pytest.mark.virtual_time
async def test_a_service_that_another_finalizer_holds_follows_its_endpoints(
    stuck: Any, client: Client
) -> None:
    going: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/held"]}
    stuck.has([_service(0, **going), _endpoint(0)])
    async with _controllers(client) as (manager, proxy):
        await asyncio.sleep(1)
        assert proxy.backends == {"n/s-0": SERVING["n/s-0"]}
        manager._informers["ModelEndpoint"]._drop(_endpoint(0))
        await asyncio.sleep(1)
        assert proxy.backends == {"n/s-0": []}


@pytest.mark.virtual_time
async def test_an_edited_region_rule_is_in_force_at_once_and_an_unreadable_one_changes_nothing(
    stuck: Any, client: Client
) -> None:
    service = _service(0)
    service["spec"]["endpoints"].append({"selector": {"matchLabels": {"modelplane.ai/deployment": "d"}}})
    stuck.has([service, _endpoint(0), _object("ModelDeployment", "d")])
    async with _controllers(client) as (manager, proxy):
        await asyncio.sleep(1)
        assert proxy.backends == {"n/s-0": SERVING["n/s-0"]}
        deployments = manager._informers["ModelDeployment"]
        for version, regions, leads_to in (
            (9000, ["eu"], []),
            (9001, 7, []),
            (9002, None, SERVING["n/s-0"]),
            (9003, 7, SERVING["n/s-0"]),
        ):
            deployments.remember(_object("ModelDeployment", "d", {"regions": regions}, version))
            await asyncio.sleep(0.1)
            assert proxy.backends == {"n/s-0": leads_to}, version


async def test_of_two_states_of_one_endpoint_the_later_counts_and_nobody_waits() -> None:
    former, now = (Backend("n/e", (("10.0.0.1", port),), weight=2) for port in (1, 2))
    other = Backend("n/other", (("10.0.0.2", 1),))
    bench = Bench()
    for name, backends in (("a", (former, other)), ("b", (former,)), ("c", (former,))):
        bench.compositions[name] = Composition(routes=(Route(f"n/{name}", f"/n/{name}/", backends),))
    bench.changed("a", "b", "c")
    await bench.update()
    assert bench.routes.agreed() == (tuple(bench.routes), {})
    bench.compositions |= {"a": Blocked("unreadable"), "b": Blocked("unreadable")}
    bench.compositions["c"] = Composition(routes=(Route("n/c", "/n/c/", (replace(now, weight=1),)),))
    bench.changed("a", "b", "c")
    await bench.update()
    routes, problems = bench.routes.agreed()
    assert {route.name: [each.name for each in route.backends] for route in routes} == {
        "n/a": ["n/other"],
        "n/b": [],
        "n/c": ["n/e"],
    }
    assert [bool(route.unavailable) for route in routes] == [False, True, False]
    assert sorted(problems) == ["n/a does not use n/e", "n/b does not use n/e"]
