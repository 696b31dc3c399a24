"""HTTP/2 transport: all requests and watches to one server share a connection.

A fleet has thousands of watches. Over HTTP/1.1 each of them is a TCP connection with a TLS handshake and
buffers of its own. A server that does not offer HTTP/2 is reached over HTTP/1.1.

A connection on which a response timed out takes no further request, because it may be dead. The requests
in flight on it continue, each until its own timeout.
"""

import asyncio
import os
import ssl
from asyncio.sslproto import SSLProtocol
from typing import Any

import httpx2

from modelplane.kube.http2 import HTTP_1_1, HTTP_2, Connection

_PING_INTERVAL_S = 30.0


class Multiplexed(httpx2.AsyncBaseTransport):
    """The connections to one server: one, unless it is full or retired."""

    def __init__(self, context: ssl.SSLContext, ping_interval_s: float = _PING_INTERVAL_S) -> None:
        """Ping a server that is silent for ``ping_interval_s``, and give it up after as long again."""
        self._ping_interval_s = ping_interval_s
        self._http1 = httpx2.AsyncHTTPTransport(verify=context, trust_env=False)
        context.set_alpn_protocols((HTTP_2, HTTP_1_1))
        self._context = context
        self._connections: list[Connection] = []
        self._connecting: asyncio.Task[None] | None = None
        self._offers_http2 = True
        self._closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response once its headers have arrived."""
        while self._offers_http2:
            self._connections = [candidate for candidate in self._connections if candidate.is_open]
            for connection in self._connections:
                if connection.is_available:
                    return await connection.send(request)
            if self._closed:
                raise httpx2.ReadError("this side closed the connection")
            if self._connecting is None:
                self._connecting = asyncio.create_task(self._connect(request))
                self._connecting.add_done_callback(self._connected)
            connecting = self._connecting
            # All requests that wait share the outcome; one that is cancelled does not cancel the attempt.
            await asyncio.wait({connecting})
            if connecting.cancelled():
                raise httpx2.ReadError("this side closed the connection")
            connecting.result()
        return await self._http1.handle_async_request(request)

    async def _connect(self, request: httpx2.Request) -> None:
        url, connection = request.url, Connection(self._ping_interval_s)
        limit_s = request.extensions["timeout"]["connect"]
        try:
            async with asyncio.timeout(limit_s):
                await _connect_tls(connection, url.host, url.port or 443, self._context)
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(
                f"no connection to {url.netloc.decode()} within {limit_s:g} s"
            ) from error
        except OSError as error:
            raise httpx2.ConnectError(f"no connection to {url.netloc.decode()}: {_cause(error)}") from error
        if connection.protocol is None:
            raise httpx2.ConnectError(f"{url.netloc.decode()} closed the connection during the handshake")
        if connection.protocol == HTTP_2:
            self._connections.append(connection)
        else:
            connection.close(httpx2.ReadError("the server does not offer HTTP/2"))
            self._offers_http2 = False

    def _connected(self, attempt: asyncio.Task[None]) -> None:
        self._connecting = None
        if not attempt.cancelled():
            attempt.exception()  # the requests that waited raise it; there may be none left

    async def aclose(self) -> None:
        """Close every connection and fail the requests in flight."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        for connection in self._connections:
            connection.close(httpx2.ReadError("this side closed the connection"))
        await self._http1.aclose()


def _cause(error: OSError) -> str:
    """Return the operating system's message, without what asyncio adds to it."""
    if error.errno is None or error.errno < 0 or isinstance(error, ssl.SSLError):  # not an errno
        return error.strerror or str(error)
    return os.strerror(error.errno)


class _Tls(SSLProtocol):
    """asyncio's TLS with a read buffer of 32 KiB in place of 256 KiB, held for as long as a connection."""

    max_size = 1 << 15


async def _connect_tls(protocol: asyncio.Protocol, host: str, port: int, context: ssl.SSLContext) -> None:
    """Connect a protocol over TLS with the small buffer; return once the handshake is complete."""
    loop = asyncio.get_running_loop()
    handshake: asyncio.Future[Any] = loop.create_future()
    transport, _ = await loop.create_connection(
        lambda: _Tls(loop, protocol, context, handshake, server_hostname=host), host, port
    )
    try:
        await handshake
    except BaseException:
        transport.abort()
        raise
