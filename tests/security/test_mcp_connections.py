"""Attacks on the assistants' server by peers without its token, that open connections and send little."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.server.mcpserver import MCPServer

from modelplane.mcp import http
from support.patience import PATIENCE_S

TOKEN = "a-token-of-this-test"
HELD = 300
LIST = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
AUTHORIZED = f"Authorization: Bearer {TOKEN}\r\n".encode()

SILENCES = {
    "open and silent": b"",
    "half a line": b"POS",
    "half of the headers": HEAD + b"X-Slow: ",
    "half of the body": HEAD + b"Content-Length: 1000\r\n\r\n{",
    "a body in chunks that does not end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    "a wrong token and half of the body": HEAD + b"Authorization: Bearer x\r\nContent-Length: 9\r\n\r\n{",
}


@pytest.fixture(params=[TOKEN, None], ids=["with a token", "public"])
def token(request: pytest.FixtureRequest) -> str | None:
    found: str | None = request.param
    return found


@asynccontextmanager
async def serving(token: str | None = TOKEN) -> AsyncIterator[int]:
    """Run a server on a real socket and yield its port."""
    with http.bind("127.0.0.1", 0) as listening:
        port: int = listening.getsockname()[1]
        server = http.build_server(http.build_application(MCPServer("test"), port, (), token))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield port
        finally:
            server.should_exit = True
            await task


class Peer:
    """Connections of somebody who holds them open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def open(self, count: int, sent: bytes) -> None:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            self.held.append((reader, writer))

    def close(self) -> None:
        for _, writer in self.held:
            writer.close()


@asynccontextmanager
async def holding(port: int, count: int, sent: bytes) -> AsyncIterator[Peer]:
    peer = Peer(port)
    try:
        await peer.open(count, sent)
        yield peer
    finally:
        peer.close()


async def ask(port: int) -> int:
    """Return the status of one request of the owner's, over a connection of its own."""
    headers = HEADERS | {"Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(timeout=PATIENCE_S) as client:
        response = await client.post(f"http://127.0.0.1:{port}/mcp", headers=headers, json=LIST)
        return response.status_code


@pytest.mark.parametrize("sent", SILENCES.values(), ids=SILENCES)
async def test_the_owner_is_served_while_others_hold_connections_open(sent: bytes, token: str | None) -> None:
    async with serving(token) as port:
        await ask(port)
        async with holding(port, HELD, sent):
            began = time.monotonic()
            assert await ask(port) == 200
            assert time.monotonic() - began < http._REQUEST_S, "not only after a deadline"


async def test_a_connection_ends_whose_request_is_sent_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_REQUEST_S", 0.5)
    for begun in (b"", HEAD, HEAD + AUTHORIZED + b"Content-Length: 100000\r\n\r\n"):
        async with serving() as port, holding(port, 1, begun) as peer:
            ((reader, writer),) = peer.held

            async def drip(into: asyncio.StreamWriter = writer) -> None:
                with contextlib.suppress(ConnectionError):
                    while True:
                        into.write(b"X")
                        await into.drain()
                        await asyncio.sleep(0.05)

            dripping = asyncio.create_task(drip())
            async with asyncio.timeout(PATIENCE_S):
                with contextlib.suppress(ConnectionError):
                    while await reader.read(1024):
                        pass
            dripping.cancel()


async def test_a_refused_connection_is_closed_at_once() -> None:
    async with serving() as port, holding(port, 1, HEAD + b"Content-Length: 1000\r\n\r\n{") as peer:
        ((reader, _),) = peer.held
        async with asyncio.timeout(http._REQUEST_S / 2):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"connection: close" in answer.lower()


async def test_a_refused_client_has_the_time_to_send_its_body() -> None:
    async with serving() as port, holding(port, 1, HEAD + b"Content-Length: 2\r\n\r\n") as peer:
        ((reader, writer),) = peer.held
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        await reader.readuntil(b"Bearer TOKEN\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(1)
        writer.write(b"{}")
        assert await reader.read() == b"", "closed, and not reset"


async def test_a_client_keeps_its_connection_between_requests() -> None:
    headers = HEADERS | {"Authorization": f"Bearer {TOKEN}"}
    async with serving() as port, httpx2.AsyncClient(timeout=PATIENCE_S) as client:
        for _ in range(3):
            response = await client.post(f"http://127.0.0.1:{port}/mcp", headers=headers, json=LIST)
            assert response.status_code == 200
        assert len(list(_connections(client))) == 1


def _connections(client: httpx2.AsyncClient) -> Iterator[Any]:
    transport: Any = client._transport
    yield from transport._pool.connections


async def test_many_requests_of_the_owner_wait_for_their_turn() -> None:
    async with serving() as port:
        answers = await asyncio.gather(*(ask(port) for _ in range(http._AT_A_TIME + 8)))
    assert set(answers) == {200}


async def test_peers_that_hold_connections_lose_theirs_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_WAITING", 4)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        async with holding(port, 20, b"POST"):
            # The address of the peer that has one connection.
            writer.write(HEAD + b"Content-Length: 0\r\n\r\n")
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.close()
