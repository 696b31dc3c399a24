"""Requests that a server had whole before it broke the connection, through a real Envoy.

A prompt that crashes an engine must not crash all of them. What no server has read can be sent again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from modelplane.gateway.route_table import Backend, Route
from support.envoys import Gateway, engines, free_ports, service

pytestmark = pytest.mark.kubernetes

PROMPT = b"a prompt that crashes engines"


class Breaking:
    """A server that reads whole requests and breaks the connection."""

    def __init__(self, name: str) -> None:
        self.name, self.port, self.read = name, 0, 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"chunked" in head.lower():
            await reader.readuntil(b"0\r\n\r\n")
        else:
            await reader.readexactly(len(PROMPT))
        self.read += 1
        writer.transport.abort()

    def backend(self, weight: int = 1, priority: int = 0) -> Backend:
        hosts = (("127.0.0.1", self.port),)
        return Backend(f"ml/{self.name}", hosts, weight, "/", priority=priority)


@asynccontextmanager
async def breaking(*names: str) -> AsyncIterator[list[Breaking]]:
    async with AsyncExitStack() as stack:
        started = []
        for name in names:
            server = Breaking(name)
            listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
            await stack.enter_async_context(listening)
            server.port = listening.sockets[0].getsockname()[1]
            started.append(server)
        yield started


async def ask(gateway: Gateway) -> tuple[int, str]:
    """Return the status and the body of an answer."""
    async with gateway.client.post(gateway.url("/ml/qwen/v1/x"), data=PROMPT) as response:
        return response.status, await response.text()


@pytest.mark.parametrize("priorities", [(0,), (0, 0, 0), (0, 1, 2)], ids=["one", "three", "three tiers"])
async def test_no_more_than_two_servers_get_a_request(gateway: Gateway, priorities: tuple[int, ...]) -> None:
    async with breaking(*"abc"[: len(priorities)]) as servers:
        backends = (each.backend(priority=rank) for each, rank in zip(servers, priorities, strict=True))
        await gateway.apply(service(*backends))
        assert (await ask(gateway))[0] == 503
        # Of several tiers, Envoy could not tell the first time from the others.
        assert sum(each.read for each in servers) == (1 if max(priorities) else 2)


@pytest.mark.parametrize("priority", [0, 1], ids=["of the tier", "of the next tier"])
async def test_another_server_answers_for_one_that_breaks(gateway: Gateway, priority: int) -> None:
    async with breaking("a") as (server,), engines("b") as (engine,):
        await gateway.apply(service(server.backend(1000), engine.backend(1, priority=priority)))
        status, said = await ask(gateway)
        assert (status, server.read) == (200, 1), said


def replicas(gateway: Gateway, *backends: Backend) -> tuple[Route, tuple[Route, ...]]:
    """Return the service of replicas behind the gateway of a cluster, and the routes there."""
    hosts = (("127.0.0.1", gateway.workload_port),)
    asked = (replace(each, hosts=hosts, prefix=f"/{each.name}/", tokens=()) for each in backends)
    behind = tuple(Route(each.name, f"/{each.name}/", (replace(each, weight=1),)) for each in backends)
    return service(*asked), behind


@pytest.mark.parametrize("priorities", [(0,), (0, 0, 0), (0, 1, 2)], ids=["one", "three", "three tiers"])
async def test_no_more_than_two_replicas_get_a_request(gateway: Gateway, priorities: tuple[int, ...]) -> None:
    async with breaking(*"abc"[: len(priorities)]) as servers:
        backends = (each.backend(priority=rank) for each, rank in zip(servers, priorities, strict=True))
        asked, behind = replicas(gateway, *backends)
        await gateway.apply(asked, workload=behind)
        status, said = await ask(gateway)
        assert status == (503 if len(servers) == 1 else 502)
        assert sum(each.read for each in servers) == min(len(servers), 2)
        assert '"error"' in said


@pytest.mark.parametrize("priority", [0, 1], ids=["of the tier", "of the next tier"])
async def test_another_replica_answers_for_one_that_crashes(gateway: Gateway, priority: int) -> None:
    async with breaking("a") as (crashing,), engines("b") as (engine,):
        serving = engine.backend(1, priority=priority)
        asked, behind = replicas(gateway, crashing.backend(1000), serving)
        await gateway.apply(asked, workload=behind)
        status, said = await ask(gateway)
        assert (status, crashing.read) == (200, 1), said


@pytest.mark.parametrize("priority", [0, 1], ids=["of the tier", "of the next tier"])
async def test_another_cluster_answers_for_one_that_is_lost(gateway: Gateway, priority: int) -> None:
    async with breaking("a") as (lost,), engines("b") as (engine,):
        asked, behind = replicas(gateway, engine.backend(1, priority=priority))
        lost_cluster = replace(lost.backend(1000), tokens=())
        await gateway.apply(service(lost_cluster, *asked.backends), workload=behind)
        status, said = await ask(gateway)
        assert (status, lost.read) == (200, 1), said


@pytest.mark.parametrize("priority", [0, 1], ids=["of the tier", "of the next tier"])
async def test_what_no_server_has_read_is_sent_again(gateway: Gateway, priority: int) -> None:
    ports = free_ports()
    async with engines("c") as (engine,):
        gone = [Backend(f"ml/{name}", (("127.0.0.1", next(ports)),), 500, "/", tokens=()) for name in "ab"]
        await gateway.apply(service(*gone, engine.backend(1, priority=priority, tokens=())))
        for _ in range(5):
            status, said = await ask(gateway)
            assert status == 200, said
