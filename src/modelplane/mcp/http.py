"""Streamable HTTP: the server on an address, guarded by host names, origins and a bearer token.

A request reads the fleet with the permissions of the kubeconfig. Its ``Host`` must be a name of the server
(against DNS rebinding), its ``Origin``, if it has one, the server's own (against web pages), and it must
carry the token (against other users of the machine).
"""

import asyncio
import hmac
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import h11
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from uvicorn.protocols.http.h11_impl import H11Protocol

from modelplane.dashboard.explanations import MOST_BYTES
from modelplane.host.addresses import is_loopback

PATH: Final = "/mcp"

_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_AT_A_TIME: Final = 32
"""Requests that are answered at a time; further ones wait."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_REQUEST_S: Final = 10.0
"""Time for a whole request, from the start of the connection or the end of the answer before."""

_REST_S: Final = 3.0
"""Time for the rest of a request that is refused."""

_WAITING: Final = 256
"""Connections that may wait."""

_UNFINISHED: Final = (h11.IDLE, h11.SEND_BODY)
"""States of a client whose request is not there yet."""


class Connection(H11Protocol):
    """One connection, which ends if its request does not arrive in time.

    A connection is waiting until its request is there, body included. If too many wait, one ends: the oldest
    of the peer that has the most. A client that sends its request at once does not wait, so it is served
    however many others hold connections open.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self.peer = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as there
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.peer = self.client[0] if self.client else ""
        self._wait()
        waiting = [
            connection
            for connection in self.connections
            if isinstance(connection, Connection) and connection.is_waiting
        ]
        if len(waiting) > _WAITING:
            [(most, _)] = Counter(connection.peer for connection in waiting).most_common(1)
            min(
                (connection for connection in waiting if connection.peer == most), key=Connection._since
            ).end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take in what has arrived."""
        super().handle_events()
        if self.conn.their_state not in _UNFINISHED:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there already."""
        super().on_response_complete()
        if self.conn.their_state in _UNFINISHED and not self.transport.is_closing():
            self._wait()

    @property
    def is_waiting(self) -> bool:
        """True while the request is not there."""
        return self._deadline is not None

    def _since(self) -> float:
        return self._deadline.when() if self._deadline else 0.0

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(_REQUEST_S, self.end)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def end(self) -> None:
        """Close the connection at once."""
        self._stop_waiting()
        self.transport.abort()


class TokenGuard:
    """Refuses requests without the token."""

    def __init__(self, application: Application, token: str) -> None:
        self._application = application
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand an admitted request on (ASGI)."""
        if scope["type"] == "http" and not self._is_admitted(scope):
            await _refuse(receive, send)
            return
        await self._application(scope, receive, send)

    def _is_admitted(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._expected)


async def _refuse(receive: Receive, send: Send) -> None:
    """Answer that the token is missing or wrong, and close the connection soon."""
    body = b"Send the token that `modelplane mcp` printed: Authorization: Bearer TOKEN\n"
    headers = [
        (b"content-type", b"text/plain"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b"Bearer"),
        # The rest of the request may never come.
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    # What arrives after the close is answered with a reset, which a client may see instead of the answer.
    with suppress(TimeoutError):
        async with asyncio.timeout(_REST_S):
            while (await receive()).get("more_body"):
                pass
    await send({"type": "http.response.body"})


class RequestLimiter:
    """Answers a limited number of requests at a time, of those that are there as a whole."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._turns = asyncio.Semaphore(_AT_A_TIME)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on (ASGI)."""
        has_turn = False

        async def received() -> MutableMapping[str, Any]:
            nonlocal has_turn
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body") and not has_turn:
                await self._turns.acquire()
                has_turn = True
            return message

        try:
            await self._application(scope, received, send)
        finally:
            if has_turn:
                self._turns.release()


def build_application(made: MCPServer, port: int, hosts: Iterable[str], token: str | None) -> Application:
    """Return the server as an ASGI application; ``hosts`` are names beside those of loopback."""
    with_port = [f"{name}:{port}" for name in (*_LOOPBACK_NAMES, *hosts)]
    security = TransportSecuritySettings(
        allowed_hosts=[*with_port, *hosts],
        allowed_origins=[f"http://{host}" for host in with_port] + [f"https://{name}" for name in hosts],
    )
    plain: Application = made.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=4 * MOST_BYTES,
        transport_security=security,
    )
    served = RequestLimiter(plain)
    return served if token is None else TokenGuard(served, token)


@contextmanager
def bind(host: str, port: int) -> Iterator[socket.socket]:
    """Listen on an address inside the block; port 0 stands for any free one. Raises ``OSError``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        yield listening


def must_name_hosts(host: str) -> bool:
    """Return True if other machines can connect, so that the names that they use must be given."""
    return not is_loopback(host)


async def serve(served: Application, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT."""
    await build_server(served).serve(sockets=[listening])


def build_server(served: Application) -> uvicorn.Server:
    """Return the server of an application."""
    config = uvicorn.Config(
        served,
        log_level="warning",
        access_log=False,
        ws="none",
        lifespan="on",
        http=Connection,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)
