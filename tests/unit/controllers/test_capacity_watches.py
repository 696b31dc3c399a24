"""Copies of what capacity is observed from: facts only, gathered, and unknown while they cannot be read."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from modelplane.compose.cluster.capacity_facts import FACTS
from modelplane.compose.composition import Unknown
from modelplane.controllers.clusters.capacity_watches import CapacityWatches
from modelplane.kube import resources
from modelplane.kube.client import Client

pytestmark = pytest.mark.virtual_time


def node(version: int, ready: str = "True", heartbeat: str = "") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}
    metadata = {
        "name": "n",
        "uid": "u",
        "resourceVersion": str(version),
        "labels": {"modelplane.ai/pool": "a"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"conditions": [condition], "images": ["many"] * 50},
    }


class Watch(httpx2.AsyncByteStream):
    """A watch that stays open and brings what the test sends."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()

    def send(self, item: dict[str, Any]) -> None:
        self.lines.put_nowait(json.dumps({"type": "MODIFIED", "object": item}).encode() + b"\n")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while line := await self.lines.get():
            yield line


class Server:
    """A cluster with one node; a kind in ``forbidden`` may not be read."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.forbidden: set[str] = set()
        self.serves_rules = True
        self.watched = 0
        self.asked: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        plural = request.url.path.rsplit("/", 1)[-1]
        self.asked.append(str(request.url.query))
        self.watched += "watch" in request.url.params
        if plural == "apis":
            return httpx2.Response(200, json={"kind": "APIGroupList", "groups": []})
        if "v1alpha3" in request.url.path and not self.serves_rules:
            return httpx2.Response(404, json={"kind": "Status", "code": 404, "message": "not found"})
        if plural == "v1alpha3":
            rules = {"name": "devicetaintrules", "kind": "DeviceTaintRule", "namespaced": False}
            return httpx2.Response(200, json={"kind": "APIResourceList", "resources": [rules]})
        if plural in self.forbidden:
            body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": f"{plural} is forbidden"}
            return httpx2.Response(403, json=body)
        if "watch" in request.url.params:
            return httpx2.Response(200, stream=self.watch if plural == "nodes" else Watch())
        items = [node(5)] if plural == "nodes" else []
        body = {"kind": "List", "metadata": {"resourceVersion": "5"}, "items": items}
        return httpx2.Response(200, json=body)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
async def watches(server: Server, told: list[str]) -> AsyncIterator[CapacityWatches]:
    transport = httpx2.MockTransport(server)
    client = Client(httpx2.AsyncClient(base_url="http://cluster", transport=transport), "tester")
    watches = CapacityWatches(client, lambda item: told.append(item["kind"]))
    yield watches
    await watches.close()
    await client.close()


def read(watches: CapacityWatches) -> tuple[dict[str, Any], ...]:
    found = watches.find(resources.NODES)
    assert not isinstance(found, Unknown)
    return found


async def test_the_first_look_begins_the_watch_and_its_answer_is_told(
    watches: CapacityWatches, server: Server, told: list[str]
) -> None:
    first = watches.find(resources.NODES)
    assert isinstance(first, Unknown)
    assert first.loading
    assert server.asked == []
    await asyncio.sleep(0.1)
    assert told == ["Node"]
    [found] = read(watches)
    assert set(found) == {"apiVersion", "kind", "metadata", FACTS}
    assert "modelplane.ai%2Fpool" in server.asked[0]


async def test_a_heartbeat_is_no_change_and_changes_are_gathered(
    watches: CapacityWatches, server: Server, told: list[str]
) -> None:
    watches.find(resources.NODES)
    await asyncio.sleep(5)
    told.clear()
    server.watch.send(node(6, heartbeat="now"))
    await asyncio.sleep(5)
    assert told == []
    for version, ready in ((7, "False"), (8, "True"), (9, "False")):
        server.watch.send(node(version, ready))
    await asyncio.sleep(5)
    assert told == ["Node"]
    [found] = read(watches)
    assert not found[FACTS].is_ready


async def test_a_missing_permission_is_unknown_and_is_told_once(
    watches: CapacityWatches, server: Server, told: list[str]
) -> None:
    server.forbidden = {"resourceslices"}
    watches.find(resources.RESOURCE_SLICES)
    await asyncio.sleep(60)
    found = watches.find(resources.RESOURCE_SLICES)
    assert isinstance(found, Unknown)
    assert (found.cause, found.loading) == ("resourceslices is forbidden", False)
    assert told == ["ResourceSlice"]
    server.forbidden = set()
    await asyncio.sleep(20)
    assert watches.find(resources.RESOURCE_SLICES) == ()
    assert told == ["ResourceSlice"] * 2


async def test_a_kind_that_a_cluster_lacks_is_empty_and_is_found_once_it_is_there(
    watches: CapacityWatches, server: Server, told: list[str]
) -> None:
    """Only alpha clusters have DeviceTaintRules: the others are asked rarely, and nothing is stale."""
    server.serves_rules = False
    first = watches.find(resources.DEVICE_TAINT_RULES)
    assert isinstance(first, Unknown)
    assert first.loading
    await asyncio.sleep(280)
    assert watches.find(resources.DEVICE_TAINT_RULES) == ()
    assert (told, len(server.asked), server.watched) == (["DeviceTaintRule"], 2, 0)
    server.serves_rules = True
    await asyncio.sleep(60)
    assert watches.find(resources.DEVICE_TAINT_RULES) == ()
    assert server.watched == 1


async def test_an_optional_kind_that_may_not_be_read_says_so_at_once_and_once(
    watches: CapacityWatches, server: Server, told: list[str]
) -> None:
    server.forbidden = {"devicetaintrules"}
    watches.find(resources.DEVICE_TAINT_RULES)
    await asyncio.sleep(1000)
    assert watches.find(resources.DEVICE_TAINT_RULES) == Unknown(
        "devicetaintrules is forbidden", forbidden=True
    )
    assert told == ["DeviceTaintRule"]
    server.forbidden = set()
    await asyncio.sleep(300)
    assert watches.find(resources.DEVICE_TAINT_RULES) == ()
