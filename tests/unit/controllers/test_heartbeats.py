"""Heartbeats: what a Lease that changes, or does not, says of its cluster, and how one is renewed."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from modelplane.controllers.clusters.heartbeats import Heartbeats, renew
from modelplane.deciders.cluster_health import Evidence
from modelplane.kube.client import Client

pytestmark = pytest.mark.virtual_time

LEASES = "/apis/coordination.k8s.io/v1/namespaces/modelplane-system/leases"


def lease(version: int, renewed: str = "", **labels: str) -> dict[str, Any]:
    metadata = {
        "name": "heartbeat-east",
        "namespace": "modelplane-system",
        "uid": "u",
        "resourceVersion": str(version),
        "labels": labels,
    }
    spec = {"renewTime": renewed} if renewed else {}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


class Watch(httpx2.AsyncByteStream):
    """A watch that stays open and brings what the test sends; None ends it."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while line := await self.lines.get():
            yield line


class Server:
    """A control plane with one Lease, or none; ``refusal`` is the status of its refusals."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.items: list[dict[str, Any]] = [lease(5, "t0")]
        self.refusal = 0
        self.written: list[tuple[str, str, dict[str, Any]]] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if self.refusal:
            body = {"kind": "Status", "code": self.refusal, "message": "refused"}
            return httpx2.Response(self.refusal, json=body)
        if request.method == "PATCH":
            self.written.append((request.method, request.url.path, json.loads(request.content)))
            return httpx2.Response(200, json=lease(9, "t"))
        assert request.url.path == LEASES
        if "watch" in request.url.params:
            self.watch = Watch()
            return httpx2.Response(200, stream=self.watch)
        version = max([int(each["metadata"]["resourceVersion"]) for each in self.items], default=5)
        body = {"kind": "List", "metadata": {"resourceVersion": str(version)}, "items": self.items}
        return httpx2.Response(200, json=body)

    def changes(self, item: dict[str, Any]) -> None:
        self.items = [item]
        self.watch.lines.put_nowait(json.dumps({"type": "MODIFIED", "object": item}).encode() + b"\n")

    def fails(self) -> None:
        self.refusal = 503
        self.watch.lines.put_nowait(b"")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    transport = httpx2.MockTransport(server)
    client = Client(httpx2.AsyncClient(base_url="http://control-plane", transport=transport), "tester")
    yield client
    await client.close()


@pytest.fixture
async def heartbeats(client: Client) -> AsyncIterator[Heartbeats]:
    heartbeats = Heartbeats(client)
    yield heartbeats
    await heartbeats.end()


async def evidence(heartbeats: Heartbeats, after_s: float, cluster: str = "east") -> Evidence:
    await asyncio.sleep(after_s)
    return heartbeats.of(cluster).evidence


async def test_a_heartbeat_that_stops_is_bad_and_one_that_returns_is_good(
    heartbeats: Heartbeats, server: Server
) -> None:
    assert heartbeats.of("east").evidence is Evidence.UNKNOWN
    heartbeats.begin()
    assert await evidence(heartbeats, 5) is Evidence.UNKNOWN, "the first state may be old"
    for turn in range(6):
        server.changes(lease(6 + turn, f"t{turn + 1}"))
        assert await evidence(heartbeats, 20) is Evidence.GOOD
    assert await evidence(heartbeats, 19) is Evidence.GOOD
    assert await evidence(heartbeats, 2) is Evidence.BAD
    assert "no heartbeat for more than" in heartbeats.of("east").cause
    server.changes(lease(20, "t20"))
    assert await evidence(heartbeats, 1) is Evidence.GOOD
    assert await evidence(heartbeats, 1, "west") is Evidence.UNKNOWN


async def test_a_heartbeat_that_stopped_before_it_was_watched_is_bad_after_a_whole_window(
    heartbeats: Heartbeats,
) -> None:
    heartbeats.begin()
    assert await evidence(heartbeats, 39) is Evidence.UNKNOWN
    assert await evidence(heartbeats, 2) is Evidence.BAD


@pytest.mark.parametrize("items", [[], [lease(5)]], ids=["no Lease", "never renewed"])
async def test_a_cluster_without_a_heartbeat_is_never_worse_for_it(
    heartbeats: Heartbeats, server: Server, items: list[dict[str, Any]]
) -> None:
    server.items = items
    heartbeats.begin()
    assert await evidence(heartbeats, 1000) is Evidence.UNKNOWN


async def test_other_changes_of_a_lease_renew_nothing(heartbeats: Heartbeats, server: Server) -> None:
    heartbeats.begin()
    await asyncio.sleep(1)
    for turn in range(6):
        server.changes(lease(6 + turn, "t0", turn=str(turn)))
        await asyncio.sleep(10)
    assert heartbeats.of("east").evidence is Evidence.BAD


@pytest.mark.parametrize("refusal", [403, 503])
async def test_leases_that_cannot_be_listed_say_nothing(
    heartbeats: Heartbeats, server: Server, refusal: int
) -> None:
    server.refusal = refusal
    heartbeats.begin()
    assert await evidence(heartbeats, 1000) is Evidence.UNKNOWN


async def test_an_outage_of_the_control_plane_begins_every_window_anew(
    heartbeats: Heartbeats, server: Server
) -> None:
    """Nobody could renew a Lease during the outage."""
    heartbeats.begin()
    await asyncio.sleep(1)
    server.changes(lease(6, "t1"))
    assert await evidence(heartbeats, 10) is Evidence.GOOD
    server.fails()
    assert await evidence(heartbeats, 300) is Evidence.UNKNOWN
    server.refusal = 0
    assert await evidence(heartbeats, 30) is Evidence.UNKNOWN
    server.changes(lease(7, "t2"))
    assert await evidence(heartbeats, 1) is Evidence.GOOD


async def test_what_was_seen_is_forgotten_at_the_end(heartbeats: Heartbeats) -> None:
    heartbeats.begin()
    assert await evidence(heartbeats, 60) is Evidence.BAD
    await heartbeats.end()
    assert heartbeats.of("east").evidence is Evidence.UNKNOWN
    heartbeats.begin()
    assert await evidence(heartbeats, 30) is Evidence.UNKNOWN


async def test_a_cluster_renews_its_own_lease_and_says_what_changes(client: Client, server: Server) -> None:
    said: list[str] = []
    renewing = asyncio.create_task(renew(client, "east", "pod-1", said.append))
    await asyncio.sleep(25)
    assert [path for _, path, _ in server.written] == [f"{LEASES}/heartbeat-east"] * 3
    assert {tuple(body) for _, _, body in server.written} == {("spec",)}
    assert server.written[0][2]["spec"]["holderIdentity"] == "pod-1"
    for server.refusal in (404, 403, 0):
        await asyncio.sleep(20)
    renewing.cancel()
    assert said == [
        'renews Lease "heartbeat-east" every 10 s',
        'Lease "heartbeat-east" does not exist in modelplane-system: create it on the control plane',
        'cannot renew Lease "heartbeat-east": refused',
        'renews Lease "heartbeat-east" every 10 s',
    ]
