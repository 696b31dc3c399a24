"""API servers of a few lines, each of which answers in one way."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2

from modelplane.kube.client import Client

Handler = Callable[[httpx2.Request], httpx2.Response]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "resourceVersion": "7"}}


def client_of(handler: Handler) -> Client:
    """Return the client of a server that answers as a function does."""
    transport = httpx2.MockTransport(handler)
    return Client(httpx2.AsyncClient(base_url="http://server", transport=transport), "tester")


class Recorder:
    """Answers every request with one object, and keeps the request."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.request = request
        return httpx2.Response(200, json=self.answer)

    @property
    def seen(self) -> tuple[str, str, dict[str, str], Any]:
        content = self.request.content
        return (
            self.request.method,
            self.request.url.path,
            dict(self.request.url.params),
            json.loads(content) if content else None,
        )


class Wire:
    """A server that keeps every byte, and answers each complete request with the same object."""

    def __init__(self) -> None:
        self.received = b""
        self.authorizations: list[str] = []
        self.connections = 0
        self.taken = ""
        """The only identity that is let in; any, where none is named."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.received += head
                fields = dict(line.split(": ", 1) for line in head.decode().lower().splitlines()[1:] if line)
                self.authorizations.append(fields.get("authorization", ""))
                self.received += await reader.readexactly(int(fields.get("content-length", 0)))
                body = json.dumps(POD).encode()
                status = self._status(self.authorizations[-1])
                writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        writer.close()
        await writer.wait_closed()
        self.connections -= 1

    def _status(self, authorization: str) -> str:
        return "200 OK" if self.taken in ("", authorization) else "401 Unauthorized"


@contextlib.asynccontextmanager
async def listening(wire: Wire) -> AsyncIterator[tuple[str, int]]:
    """Let a server listen, and yield its address."""
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
        while wire.connections:
            await asyncio.sleep(0.001)
    finally:
        server.close()


class Chunks(httpx2.AsyncByteStream):
    """A body that comes in parts."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
