"""Streamable HTTP: who is served, and who is refused."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer

from modelplane.mcp import http
from support.mcp_clients import call

TOKEN = "a-token-of-this-test"
ADDRESS = "http://127.0.0.1:8791/mcp"
BODY = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Authorization": f"Bearer {TOKEN}",
}
MODERN = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}


@asynccontextmanager
async def connected(
    served: MCPServer, hosts: tuple[str, ...] = (), token: str | None = TOKEN
) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve in this process, and return a client without any header of its own."""
    application = http.build_application(served, 8791, hosts, token)
    transport = httpx2.ASGITransport(app=application)
    async with served.session_manager.run(), httpx2.AsyncClient(transport=transport) as client:
        yield client


async def status(client: httpx2.AsyncClient, method: str = "POST", **changed: str | None) -> int:
    """Return the status of a request with changed headers; None leaves one out."""
    headers: dict[str, str] = {**HEADERS}
    for name, value in changed.items():
        headers.pop(name.replace("_", "-"), None)
        if value is not None:
            headers[name.replace("_", "-")] = value
    response = await client.request(method, ADDRESS, headers=headers, json=BODY)
    return response.status_code


async def test_a_client_with_the_token_is_served(served: MCPServer) -> None:
    async with connected(served) as plain:
        plain.headers["Authorization"] = f"Bearer {TOKEN}"
        async with Client(streamable_http_client(ADDRESS, http_client=plain)) as client:
            assert len((await client.list_tools()).tools) == 7
            assert "drain.md" in await call(client, "search_modelplane_docs", query="drain")


REFUSED: Mapping[str, tuple[Mapping[str, Any], int]] = {
    "a name that resolves to loopback": ({"Host": "attacker.example"}, 421),
    "such a name with the port": ({"Host": "attacker.example:8791"}, 421),
    "another port of loopback": ({"Host": "127.0.0.1:80"}, 421),
    "a name that begins like ours": ({"Host": "127.0.0.1:8791.attacker.example"}, 421),
    "a page of another site": ({"Origin": "https://attacker.example"}, 403),
    "a page of another server of this machine": ({"Origin": "http://localhost:3000"}, 403),
    "a page without an origin": ({"Origin": "null"}, 403),
    "no token": ({"Authorization": None}, 401),
    "another token": ({"Authorization": "Bearer a-token-of-this-tesT"}, 401),
    "a part of the token": ({"Authorization": "Bearer a-token"}, 401),
    "an empty token": ({"Authorization": "Bearer "}, 401),
    "another scheme": ({"Authorization": f"Basic {TOKEN}"}, 401),
    "a form, which a page may send without asking": ({"Content_Type": "text/plain"}, 400),
}


@pytest.mark.parametrize(("changed", "expected"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("version", [{}, MODERN], ids=["handshake", "modern"])
async def test_other_requests_are_refused(
    served: MCPServer, version: dict[str, str], changed: Mapping[str, Any], expected: int
) -> None:
    async with connected(served) as client:
        client.headers.update(version)
        assert await status(client, **changed) == expected


async def test_the_names_of_loopback_are_served(served: MCPServer) -> None:
    async with connected(served) as client:
        for host in ("127.0.0.1:8791", "localhost:8791", "[::1]:8791"):
            assert await status(client, Host=host) == 200
            assert await status(client, Host=host, Origin=f"http://{host}") == 200


async def test_a_named_host_is_served_and_no_other(served: MCPServer) -> None:
    async with connected(served, hosts=("docs.example",)) as client:
        assert await status(client, Host="docs.example") == 200
        assert await status(client, Host="docs.example:8791") == 200
        assert await status(client, Host="docs.example", Origin="https://docs.example") == 200
        assert await status(client, Host="other.example") == 421


async def test_without_a_token_hosts_and_origins_are_checked_all_the_same(served: MCPServer) -> None:
    async with connected(served, token=None) as client:
        assert await status(client, Authorization=None) == 200
        assert await status(client, Authorization=None, Host="attacker.example") == 421
        assert await status(client, Authorization=None, Origin="https://attacker.example") == 403


async def test_a_body_that_is_too_large_is_refused(served: MCPServer) -> None:
    async with connected(served) as client:
        response = await client.post(ADDRESS, headers=HEADERS, content=b" " * (2**20 + 1))
    assert response.status_code == 413


async def test_there_is_no_other_path(served: MCPServer) -> None:
    async with connected(served) as client:
        for path in ("/", "/mcp/x", "/sse", "/.well-known/oauth-protected-resource"):
            response = await client.get(f"http://127.0.0.1:8791{path}", headers=HEADERS)
            assert response.status_code == 404, path


def test_an_address_of_other_machines_needs_names() -> None:
    assert [http.must_name_hosts(host) for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9")] == [
        False
    ] * 4
    assert [http.must_name_hosts(host) for host in ("0.0.0.0", "::", "192.0.2.1", "a.example")] == [True] * 4


def test_an_address_in_use_is_an_error() -> None:
    with http.bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(OSError, match="in use"), http.bind("127.0.0.1", port):
            pass
    with http.bind("::1", 0) as listening:
        assert listening.family == socket.AF_INET6
