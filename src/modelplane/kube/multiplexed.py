"""HTTP/2 to one server: requests and watches share a connection.

A fleet has thousands of watches, and over HTTP/1.1 each is a TCP connection with a TLS handshake of its
own. A server that does not speak HTTP/2 is spoken to in HTTP/1.1.

One rule: a connection on which an answer was late takes no further request, because it may be dead; what
is under way on it goes on, each with its own patience.
"""

import asyncio
import os
import ssl
from asyncio.sslproto import SSLProtocol
from collections import deque
from collections.abc import AsyncIterator

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import httpx2

_PROTOCOLS = ("h2", "http/1.1")

_WINDOW = 1 << 20
_WINDOW_OF_ALL = 1 << 24
"""How many bytes a server may send ahead, on one stream and on all of them."""

# asyncio gives each TLS connection a buffer of 256 KiB, of which a thousand take a quarter of a gigabyte.
SSLProtocol.max_size = 1 << 15

_MOST_STREAMS = 1 << 20
"""How many requests a connection takes in its life; their numbers are not without end."""

_LOOK_S = 30.0
"""How often to see whether a connection lives: one on which nothing came for so long is asked for a sign."""

_FRAME_HEADER = 9
_GOAWAY = 7
_NUMBER = (1 << 31) - 1
_OF_HTTP_1 = frozenset({b"connection", b"host", b"keep-alive", b"transfer-encoding", b"upgrade"})

HEADERS_STARTED = "http2.send_request_headers.started"
BODY_STARTED = "http2.send_request_body.started"
"""What a request's extension ``trace`` is told just before bytes are handed to the kernel."""

_Headers = list[tuple[bytes, bytes]]


class Multiplexed(httpx2.AsyncBaseTransport):
    """The connections to one server; hardly ever is there more than one."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._otherwise = httpx2.AsyncHTTPTransport(verify=context, trust_env=False)
        context.set_alpn_protocols(_PROTOCOLS)
        self._context = context
        self._connections: list[_Connection] = []
        self._connecting: asyncio.Task[None] | None = None
        self._speaks = True

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the answer as soon as it begins."""
        while self._speaks:
            self._connections = [each for each in self._connections if each.is_open]
            for connection in self._connections:
                if connection.takes_more:
                    return await connection.answer(request)
            if self._connecting is None:
                self._connecting = asyncio.create_task(self._connect(request))
                self._connecting.add_done_callback(self._connected)
            connecting = self._connecting
            # Whoever waits shares what comes of it; who stops waiting does not stop it.
            await asyncio.wait({connecting})
            if connecting.cancelled():
                raise httpx2.ReadError("this side closed the connection")
            connecting.result()
        return await self._otherwise.handle_async_request(request)

    async def _connect(self, request: httpx2.Request) -> None:
        loop, url = asyncio.get_running_loop(), request.url
        limit_s = request.extensions["timeout"]["connect"]
        try:
            async with asyncio.timeout(limit_s):
                transport, connection = await loop.create_connection(
                    _Connection, url.host, url.port or 443, ssl=self._context
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(
                f"no connection to {url.netloc.decode()} within {limit_s:g} s"
            ) from error
        except OSError as error:
            raise httpx2.ConnectError(f"no connection to {url.netloc.decode()}: {_cause(error)}") from error
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() == _PROTOCOLS[0]:
            self._connections.append(connection)
        else:
            transport.abort()
            self._speaks = False

    def _connected(self, attempt: asyncio.Task[None]) -> None:
        self._connecting = None
        if not attempt.cancelled():
            attempt.exception()  # those who waited have it; perhaps nobody did

    async def aclose(self) -> None:
        """Break off whatever is under way."""
        if self._connecting is not None:
            self._connecting.cancel()
        for connection in self._connections:
            connection.end(httpx2.ReadError("this side closed the connection"))
        await self._otherwise.aclose()


def _cause(error: OSError) -> str:
    """Return what the operating system says, in place of what asyncio adds to it."""
    if error.errno is None or error.errno < 0 or isinstance(error, ssl.SSLError):  # not a number of its own
        return error.strerror or str(error)
    return os.strerror(error.errno)


class _Connection(asyncio.Protocol):
    """One connection, and what is under way on it."""

    def __init__(self) -> None:
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(header_encoding=None, validate_outbound_headers=False)
        )
        self._h2.local_settings = h2.settings.Settings(
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
            }
        )
        self._transport: asyncio.WriteTransport | None = None
        self._answers: dict[int, _Answer] = {}
        self._asked = 0
        self._late = False
        self._leaving = False
        self._unread = bytearray()
        self._heard = True
        self._pinged = False
        self._look = asyncio.get_running_loop().call_later(_LOOK_S, self._see)
        self._room = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def is_open(self) -> bool:
        """Whether anything can still come this way."""
        return self._transport is not None

    @property
    def takes_more(self) -> bool:
        """Whether another request may go this way."""
        return not self._retired and len(self._answers) < self._h2.remote_settings.max_concurrent_streams

    @property
    def _retired(self) -> bool:
        return self._late or self._leaving or self._asked >= _MOST_STREAMS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the server."""
        self._transport = transport  # type: ignore[assignment]  # that of a TCP connection
        # As little as can be is to wait in this process: what was asked before a write may not hold later.
        self._transport.set_write_buffer_limits(high=1)  # type: ignore[union-attr]  # as above
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW_OF_ALL)
        self._flush()

    def pause_writing(self) -> None:
        """Wait with further requests: the kernel takes no more bytes."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self._drained.set()

    def _see(self) -> None:
        """Ask a silent server for a sign of life; break off when it gave none."""
        if self._pinged and not self._heard:
            self.end(httpx2.ReadError(f"the server gave no sign of life for {_LOOK_S:g} s"))
            return
        self._pinged = not self._heard
        if self._pinged:
            self._h2.ping(b"modelpln")
            self._flush()
        self._heard = False
        self._look = asyncio.get_running_loop().call_later(_LOOK_S, self._see)

    def data_received(self, data: bytes) -> None:
        """Take in what the server sends."""
        self._heard = True
        try:
            for event in self._h2.receive_data(self._but_farewells(data)):
                self._take(event)
        except h2.exceptions.ProtocolError as error:
            self.end(httpx2.RemoteProtocolError(str(error)))
        if self._leaving and not self._answers:
            self.end(httpx2.RemoteProtocolError("the server is going away"))
        self._flush()

    def _but_farewells(self, data: bytes) -> bytes:
        """Return the whole frames that came, but for those by which the server says that it goes away.

        h2 would take nothing more after one, and the server still answers what is under way (RFC 9113,
        section 6.8). An API server says it to everybody whose credentials it refuses, before it says why.
        """
        self._unread += data
        kept, start = bytearray(), 0
        while len(self._unread) >= start + _FRAME_HEADER:
            end = start + _FRAME_HEADER + int.from_bytes(self._unread[start : start + 3], "big")
            if end > len(self._unread):
                break
            if self._unread[start + 3] == _GOAWAY:
                last = int.from_bytes(self._unread[start + _FRAME_HEADER : start + _FRAME_HEADER + 4], "big")
                self._part(last & _NUMBER)
            else:
                kept += self._unread[start:end]
            start = end
        del self._unread[:start]
        return bytes(kept)

    def _part(self, last: int) -> None:
        """Ask nothing more of a server that goes away; it takes no request with a number above the last."""
        self._leaving = True
        why = httpx2.RemoteProtocolError("the server goes away and did not take the request")
        for number in [each for each in self._answers if each > last]:
            self._finish(number, why)

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
            self._room.set()
        elif isinstance(event, h2.events.DataReceived):
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if answer := self._answers.get(event.stream_id):
                answer.add(event.data)
        elif isinstance(event, h2.events.ResponseReceived):
            if answer := self._answers.get(event.stream_id):
                answer.begin(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            self._finish(event.stream_id, None)
        elif isinstance(event, h2.events.StreamReset):
            why = f"the server broke off its answer (HTTP/2 error {event.error_code})"
            self._finish(event.stream_id, httpx2.RemoteProtocolError(why))

    def _finish(self, number: int, why: Exception | None) -> None:
        if answer := self._answers.pop(number, None):
            answer.end(why)
            self._room.set()
        if self._retired and not self._answers:
            self.end(httpx2.ReadError("this side closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail whatever was under way."""
        self.end(httpx2.ReadError(str(exc) if exc else "the server closed the connection"))

    def end(self, why: Exception) -> None:
        """Break off whatever is under way."""
        if self._transport is None:
            return
        transport, self._transport = self._transport, None
        transport.abort()
        self._look.cancel()
        self._room.set()
        self._drained.set()
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer.end(why)

    def _flush(self) -> None:
        if self._transport is not None and (data := self._h2.data_to_send()):
            self._transport.write(data)

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the answer as soon as it begins."""
        body = await request.aread()
        self._asked += 1
        await self._about_to_send(request, HEADERS_STARTED)
        if self._leaving:
            raise httpx2.WriteError("the server goes away")
        number = self._h2.get_next_available_stream_id()
        answer = self._answers[number] = _Answer(self, number, request.extensions["timeout"]["read"])
        try:
            self._h2.send_headers(number, _headers(request), end_stream=not body)
            self._flush()
            await self._send(number, body, request)
            status, headers = await answer.head()
        except BaseException:
            self.give_up(number)
            raise
        return httpx2.Response(status, headers=headers, stream=answer, extensions={"http_version": b"HTTP/2"})

    async def _send(self, number: int, body: bytes, request: httpx2.Request) -> None:
        while body and number in self._answers:
            room = min(self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)
            if room <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            await self._about_to_send(request, BODY_STARTED)
            part, body = body[:room], body[room:]
            self._h2.send_data(number, part, end_stream=not body)
            self._flush()

    async def _about_to_send(self, request: httpx2.Request, step: str) -> None:
        await self._drained.wait()
        if trace := request.extensions.get("trace"):
            await trace(step, {})
        if self._transport is None:
            raise httpx2.WriteError("the connection was closed")

    def give_up(self, number: int) -> None:
        """Want no more of an answer."""
        if number in self._answers:
            if self._transport is not None:
                self._h2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
                self._flush()
            self._finish(number, httpx2.ReadError("nobody wants the answer any more"))

    def is_late(self) -> None:
        """Take no more requests: an answer did not come in time."""
        self._late = True


def _headers(request: httpx2.Request) -> _Headers:
    url = request.url
    own = ((name.lower(), value) for name, value in request.headers.raw)
    return [
        (b":method", request.method.encode()),
        (b":authority", url.netloc),
        (b":scheme", url.raw_scheme),
        (b":path", url.raw_path),
        *((name, value) for name, value in own if name not in _OF_HTTP_1),
    ]


class _Answer(httpx2.AsyncByteStream):
    """What a server answers to one request, as it comes."""

    def __init__(self, connection: _Connection, number: int, patience_s: float | None) -> None:
        self._connection = connection
        self._number = number
        self._patience_s = patience_s
        self._head: _Headers = []
        self._parts: deque[bytes] = deque()
        self._ended = False
        self._why: Exception | None = None
        self._news = asyncio.Event()

    def begin(self, headers: _Headers) -> None:
        self._head = headers
        self._news.set()

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._news.set()

    def end(self, why: Exception | None) -> None:
        self._ended, self._why = True, why
        self._news.set()

    async def head(self) -> tuple[int, _Headers]:
        """Return the status and the headers once they have come."""
        while not self._head:
            await self._wait(self._patience_s)
        pseudo = {name: value for name, value in self._head if name.startswith(b":")}
        return int(pseudo[b":status"]), [each for each in self._head if each[0] not in pseudo]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._parts:
                yield self._parts.popleft()
            if self._ended and self._why is None:
                return
            # A watch may have nothing to say for hours: the connection tells whether the server is there.
            await self._wait(None)

    async def _wait(self, patience_s: float | None) -> None:
        """Return when something has come; raise when nothing will."""
        if self._ended:
            raise self._why or httpx2.RemoteProtocolError("the server ended its answer before it began")
        self._news.clear()
        try:
            async with asyncio.timeout(patience_s):
                await self._news.wait()
        except TimeoutError as error:
            self._connection.is_late()
            raise httpx2.ReadTimeout(f"no answer within {patience_s:g} s") from error

    async def aclose(self) -> None:
        self._connection.give_up(self._number)
