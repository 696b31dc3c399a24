"""Clients of the MCP server: the SDK's own, over stdio and over HTTP."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

from modelplane.local.home import ENVIRONMENT_VARIABLE

COMMAND = (sys.executable, "-m", "modelplane.cli.main", "mcp")


@asynccontextmanager
async def over_stdio(*arguments: str, home: str = "") -> AsyncIterator[Client]:
    """Start ``modelplane mcp`` as a client does, and connect."""
    environment = {**os.environ, "KUBECONFIG": "", ENVIRONMENT_VARIABLE: home}
    if not home:
        del environment[ENVIRONMENT_VARIABLE]
    command, *rest = COMMAND
    parameters = StdioServerParameters(command=command, args=[*rest, *arguments], env=environment)
    async with Client(stdio_client(parameters)) as client:
        yield client


@dataclass(frozen=True, slots=True)
class Served:
    """A server on HTTP; ``token`` is empty where it needs none."""

    address: str
    token: str = ""

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Connect as a client that was given the token."""
        async with (
            httpx2.AsyncClient(headers=dict(self.headers), timeout=60) as http,
            Client(streamable_http_client(self.address, http_client=http)) as client,
        ):
            yield client


@contextmanager
def over_http(*arguments: str, home: str = "") -> Iterator[Served]:
    """Run ``modelplane mcp --http`` on a free port inside the block."""
    environment = {**os.environ, "KUBECONFIG": "", ENVIRONMENT_VARIABLE: home}
    if not home:
        del environment[ENVIRONMENT_VARIABLE]
    command = [*COMMAND, "--http", "127.0.0.1:0", *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.fullmatch(
                r"Serving MCP at (http://127\.0\.0\.1:\d+/mcp)", process.stdout.readline().strip()
            )
            assert found is not None
            token = ""
            if "--docs-only" not in arguments and "--token-file" not in arguments:
                token = process.stdout.readline().strip().rpartition(" ")[2]
            yield Served(found[1], token)
        finally:
            process.send_signal(signal.SIGINT)


def text_of(result: CallToolResult) -> str:
    """Return the text of an answer."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def answer(server: Client | MCPServer, tool: str, **arguments: Any) -> CallToolResult:
    """Return the answer of a tool, of a client or through a new one in this process."""
    if isinstance(server, MCPServer):
        async with Client(server) as client:
            return await answer(client, tool, **arguments)
    result = await server.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    return result


async def call(server: Client | MCPServer, tool: str, **arguments: Any) -> str:
    """Return the text of a tool that succeeds."""
    result = await answer(server, tool, **arguments)
    assert not result.is_error, text_of(result)
    return text_of(result)


async def refusal(server: Client | MCPServer, tool: str, **arguments: Any) -> str:
    """Return the error of a tool that refuses."""
    result = await answer(server, tool, **arguments)
    assert result.is_error, text_of(result)
    return text_of(result)
