"""A team whose services and endpoints match one another in all ways: the routes of others come in time.

The maximum of a namespace is lower here, so that the crowd is small.
"""

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.meta import API_VERSION
from modelplane.controllers.fleet_resources import MODEL_ENDPOINTS, MODEL_SERVICES
from modelplane.controllers.gateway import fleet_routes
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_routes import count_endpoints
from modelplane.gateway.route_table import Backend, Front, Listener, Route, Table
from modelplane.host.file_system import write_private
from modelplane.kube import resources
from modelplane.proxy.interface import FLEET_LISTENER
from modelplane.proxy.proxies import GatewayDirectory
from support.attacked import Attacked
from support.controllers import running_controllers
from support.patience import PATIENCE_S, eventually

pytestmark = pytest.mark.kubernetes

CROWD, VICTIM = "crowd", "victim"
MOST, SERVICES, ENDPOINTS = 100, 30, 20
ROUTES = f"routes/{FLEET_LISTENER}.json"
GROUP = "example.com/group"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_routes, "MOST_IN_NAMESPACE", MOST)


def endpoint(namespace: str, name: str, group: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {GROUP: group}}
    spec = {"url": "http://10.0.0.1:8000"}
    return {"apiVersion": API_VERSION, "kind": "ModelEndpoint", "metadata": metadata, "spec": spec}


def service(namespace: str, name: str, *groups: str) -> dict[str, Any]:
    entries = [{"selector": {"matchLabels": {GROUP: group}}} for group in groups]
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelService",
        "metadata": metadata,
        "spec": {"endpoints": entries},
    }


class Crowded:
    """A fleet, and the routes that the controllers wrote."""

    def __init__(self, fleet: Attacked) -> None:
        self.fleet = fleet
        self.files: dict[str, str] = {}

    @asynccontextmanager
    async def controllers(self) -> AsyncIterator[None]:
        directory = self.fleet.control_plane.home.envoy
        proxy = GatewayDirectory(directory, "127.0.0.1:8080", self._write)
        async with running_controllers(self.fleet.control_plane, proxy):
            yield

    def _write(self, _directory: Path, written: Mapping[str, str]) -> bool:
        self.files = dict(written)
        return False

    def routed(self, namespace: str) -> dict[str, int]:
        """Return the number of endpoints of each route of a namespace."""
        counts = count_endpoints([self.files.get(ROUTES, "")])
        return {name: number for name, number in counts.items() if name.startswith(f"{namespace}/")}

    async def apply(self, *manifests: dict[str, Any]) -> None:
        for each in manifests:
            await self.fleet.client.apply(each)

    async def victims_seconds(self, name: str) -> float:
        """Return how long a new service of the victim takes until it has a route."""
        await self.apply(endpoint(VICTIM, name, name))
        began = time.monotonic()
        await self.apply(service(VICTIM, name, name))

        async def is_routed() -> bool:
            return self.routed(VICTIM).get(f"{VICTIM}/{name}") == 1

        await eventually(is_routed)
        return time.monotonic() - began

    async def until_full(self, number: int = SERVICES) -> None:
        async def is_full() -> bool:
            return len(self.routed(CROWD)) == number and sum(self.routed(CROWD).values()) == MOST

        await eventually(is_full)


@pytest.fixture
async def crowded(fleet: Attacked) -> AsyncIterator[Crowded]:
    for name in (CROWD, VICTIM):
        await fleet.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield Crowded(fleet)
    for name in (CROWD, VICTIM):
        for resource in (MODEL_SERVICES, MODEL_ENDPOINTS):
            for item in (await fleet.client.list(resource, name)).items:
                await fleet.client.delete(resource, item["metadata"]["name"], name)


def crowd(group: str = "a") -> tuple[dict[str, Any], ...]:
    return (
        *(endpoint(CROWD, f"e-{at:02}", group) for at in range(ENDPOINTS)),
        *(service(CROWD, f"s-{at:02}", "a") for at in range(SERVICES)),
    )


async def test_services_that_all_select_all_endpoints_are_bounded_and_the_newest_says_so(
    crowded: Crowded,
) -> None:
    async with crowded.controllers():
        quiet = await crowded.victims_seconds("quiet")
        await crowded.apply(*crowd())
        assert await crowded.victims_seconds("crowded") < quiet + 2
        await crowded.until_full()
        said = await crowded.fleet.until_said(
            MODEL_SERVICES, "s-29", "RoutingReady", "20 of 20 endpoints receive no requests, because", CROWD
        )
        assert (said["status"], said["reason"]) == ("False", "LimitExceeded")
        oldest = await crowded.fleet.until_said(
            MODEL_SERVICES, "s-00", "EndpointsResolved", "routes to 20", CROWD
        )
        assert oldest["status"] == "True"


async def test_labels_that_change_let_no_namespace_beyond_its_maximum(crowded: Crowded) -> None:
    async with crowded.controllers():
        await crowded.apply(*crowd("none"))
        for group in ("a", "none", "a"):
            for at in range(ENDPOINTS):
                await crowded.apply(endpoint(CROWD, f"e-{at:02}", group))
                assert sum(crowded.routed(CROWD).values()) <= MOST
        assert await crowded.victims_seconds("rematched") < PATIENCE_S
        await crowded.until_full()


async def test_one_service_with_many_selectors_for_all_endpoints_counts_each_once(crowded: Crowded) -> None:
    async with crowded.controllers():
        await crowded.apply(*crowd()[:ENDPOINTS])
        await crowded.apply(*(service(CROWD, f"s-{at:02}", *(["a"] * 8)) for at in range(SERVICES)))
        await crowded.until_full()
        assert max(crowded.routed(CROWD).values()) == ENDPOINTS


async def test_endpoints_that_come_and_go_give_their_place_to_the_oldest_service(crowded: Crowded) -> None:
    async with crowded.controllers():
        await crowded.apply(*crowd())
        await crowded.until_full()
        for at in range(ENDPOINTS - 5):
            await crowded.fleet.client.delete(MODEL_ENDPOINTS, f"e-{at:02}", CROWD)

        async def has_moved() -> bool:
            # A service that got a part before keeps the part, so the last five can be of two services.
            routed = crowded.routed(CROWD)
            full = [name for name, number in routed.items() if number == 5]
            return sum(routed.values()) == MOST and max(routed.values()) == 5 and f"{CROWD}/s-00" in full

        await eventually(has_moved)
        assert await crowded.victims_seconds("churned") < PATIENCE_S


async def test_many_small_namespaces_do_not_wait_for_one_another(crowded: Crowded) -> None:
    names = [f"small-{at:02}" for at in range(20)]
    async with crowded.controllers():
        quiet = await crowded.victims_seconds("calm")
        for name in names:
            await crowded.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            await crowded.apply(*(endpoint(name, f"e-{at}", "a") for at in range(4)))
            await crowded.apply(*(service(name, f"s-{at}", "a") for at in range(4)))
        assert await crowded.victims_seconds("among") < quiet + 2
    for name in names:
        await crowded.fleet.client.delete(resources.NAMESPACES, name)


async def test_routes_from_before_the_maximum_stay_and_say_so(crowded: Crowded) -> None:
    """The files of an earlier version have every endpoint of every service."""
    backends = tuple(Backend(f"{CROWD}/e-{at:02}", (("10.0.0.1", 8000),)) for at in range(ENDPOINTS))
    routes = tuple(Route(f"{CROWD}/s-{at:02}", f"/{CROWD}/s-{at:02}/", backends) for at in range(SERVICES))
    table = Table((Listener(FLEET_LISTENER, "127.0.0.1", 8080, routes, None, Front()),))
    path = crowded.fleet.control_plane.home.envoy / ROUTES
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, render_files(table)[ROUTES])
    assert json.loads(path.read_text())["resources"]
    await crowded.apply(*crowd())
    async with crowded.controllers():
        await crowded.apply(service(CROWD, "t-new", "a"))

        async def are_all_there() -> bool:
            return len(crowded.routed(CROWD)) == SERVICES + 1

        await eventually(are_all_there)
        routed = crowded.routed(CROWD)
        assert (routed.pop(f"{CROWD}/t-new"), {*routed.values()}) == (0, {ENDPOINTS})
        kept = await crowded.fleet.until_said(MODEL_SERVICES, "s-29", "RoutingReady", "adds no others", CROWD)
        assert (kept["status"], kept["reason"]) == ("True", "LimitExceeded")
        new = await crowded.fleet.until_said(
            MODEL_SERVICES, "t-new", "RoutingReady", "receive no requests", CROWD
        )
        assert (new["status"], new["reason"]) == ("False", "LimitExceeded")
    path.unlink()
