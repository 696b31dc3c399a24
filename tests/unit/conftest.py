"""What an API server answers, as far as a controller's part needs it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import httpx2
import pytest

from modelplane.controllers.clusters.cluster_connection import Connection
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.fleet_resources import find_known, resource_of
from modelplane.kube.client import Client
from support import virtual_time


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run a test that is marked so on a clock that passes only while everything waits."""
    virtual = item.get_closest_marker("virtual_time")
    return {"loop": virtual_time.Loop if virtual else asyncio.new_event_loop}


class _Open(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""


class Scripted:
    """Lists what it is given, watches without events, accepts every write unless told otherwise."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, dict[str, str], Any]] = []
        self.answers: dict[tuple[str, str], httpx2.Response | Exception] = {}
        """What to answer instead, by method and path."""
        self.silent = False
        """Whether lists are not answered."""
        self.stuck = False
        """Whether writes are not answered."""
        self._lists: dict[str, list[Any]] = {}
        self._version = 1000

    def has(self, items: Iterable[dict[str, Any]]) -> None:
        """Let every collection hold these objects."""
        self._lists = {}
        for item in items:
            resource, namespace = resource_of(item), item["metadata"].get("namespace")
            for path in dict.fromkeys((resource.build_path(), resource.build_path(namespace))):
                self._lists.setdefault(path, []).append(item)

    def refuse(self, method: str, path: str, code: int, message: str) -> None:
        self.answers[method, path] = httpx2.Response(code, json={"kind": "Status", "message": message})

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path, params = request.url.path, dict(request.url.params)
        if "watch" in params:
            return httpx2.Response(200, stream=_Open())
        body = json.loads(request.content) if request.content else None
        if path.endswith("/selfsubjectaccessreviews"):
            return httpx2.Response(200, json={**(body or {}), "status": {"allowed": True}})
        if request.method != "GET":
            self.writes.append((request.method, path, params, body))
            if self.stuck:
                await asyncio.Event().wait()
        answer = self.answers.get((request.method, path))
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            return answer
        if request.method == "GET":
            if self.silent:
                await asyncio.Event().wait()
            items = self._lists.get(path, [])
            return httpx2.Response(
                200, json={"kind": "List", "metadata": {"resourceVersion": "1000"}, "items": items}
            )
        return httpx2.Response(200, json=self._written(body or {}))

    def _written(self, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        own = {"resourceVersion": str(self._version), "generation": 1}
        metadata = {"name": "n", "uid": "uid"} | body.get("metadata", {}) | own
        return {"apiVersion": "v1", "kind": "Status", **body, "metadata": metadata}

    def wrote(self, method: str) -> list[str]:
        """Return the paths that were written to by a method."""
        return [path for each, path, _, _ in self.writes if each == method]


@pytest.fixture
def plane() -> Scripted:
    """The control plane."""
    return Scripted()


@pytest.fixture
def east() -> Scripted:
    """An inference cluster."""
    return Scripted()


def _connect(server: Scripted) -> Client:
    transport = httpx2.MockTransport(server)
    http = httpx2.AsyncClient(base_url="http://server", transport=transport)
    return Client(http, "modelplane", known=find_known)


@pytest.fixture
async def client(plane: Scripted) -> AsyncIterator[Client]:
    async with _connect(plane) as connected:
        yield connected


@pytest.fixture
async def clusters() -> AsyncIterator[Clusters]:
    """Connections, each begun when the test calls ``connected``."""
    clusters = Clusters(lambda _cluster, _item: None, lambda _cluster: None)
    yield clusters
    await clusters.close()


async def begin(clusters: Clusters, name: str, server: Scripted, read: bool = True) -> Connection:
    """Connect a cluster, and wait until it has been read."""
    connection = Connection(name, _connect(server), clusters._on_change, clusters._on_problem)
    clusters._connections[name] = connection
    opening = asyncio.create_task(connection.open())
    clusters._opening.add(opening)
    await asyncio.sleep(0)
    while read and connection.problem:
        await asyncio.sleep(0.01)
    return connection


@pytest.fixture
def connected() -> Any:
    """The function ``begin``."""
    return begin
