"""One HTTP/2 connection: requests, responses, flow control, liveness and GOAWAY, over the library h2.

Flow control: a response is acknowledged on its stream only as its reader takes it, so a slow reader buffers
at most one stream window. The connection's window is replenished on receipt, so a slow reader does not hold
back the other streams.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import httpx2

from modelplane.kube.http_messages import build_http2_headers

_STREAM_WINDOW = 1 << 20
"""Bytes of one response that the server may send before the reader takes them."""

_CONNECTION_WINDOW = 1 << 24
"""Bytes of all responses that the server may send before this side has received them."""

_MAX_REQUESTS = 1 << 20
"""Requests after which a connection is replaced: HTTP/2 does not reuse stream numbers."""

_FRAME_HEADER = 9
_GOAWAY = 7
_STREAM_ID_MASK = (1 << 31) - 1

_NEVER_THE_SAME = frozenset({b":path", b"content-length"})

HEADERS_STARTED = "http2.send_request_headers.started"
BODY_STARTED = "http2.send_request_body.started"
"""The steps that a request's extension ``trace`` is called with just before bytes go to the kernel."""

HTTP_2, HTTP_1_1 = "h2", "http/1.1"
"""Protocol identifiers of ALPN (RFC 7301)."""

h2.connection.repr = type  # type: ignore[attr-defined]  # it spells out each frame for a log that it drops

_Headers = list[tuple[bytes, bytes]]


class Connection(asyncio.Protocol):
    """One connection and the requests in flight on it."""

    protocol: str | None = None
    """The application protocol that the server chose, HTTP/1.1 if it chose none; set once connected."""

    def __init__(self, ping_interval_s: float) -> None:
        """Ping a server that is silent for this long, and give it up after as long again."""
        self._ping_interval_s = ping_interval_s
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                # Of the headers of a response, only the status is believed.
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
            )
        )
        encoder = self._h2.encoder
        encoder.add = partial(_encoded, encoder.add)  # type: ignore[method-assign]  # hpack has no option
        self._h2.local_settings = h2.settings.Settings(
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
            }
        )
        self._transport: asyncio.WriteTransport | None = None
        self._responses: dict[int, ResponseStream] = {}
        self._requests = 0
        self._timed_out = False
        self._going_away = False
        self._incomplete = bytearray()
        self._unacknowledged = 0
        self._heard = True
        self._pinged = False
        self._liveness: asyncio.TimerHandle | None = None
        self._window_opened = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def is_open(self) -> bool:
        """Return True if the connection can still carry responses."""
        return self._transport is not None

    @property
    def is_available(self) -> bool:
        """Return True if the connection takes another request."""
        return not self._retired and len(self._responses) < self._h2.remote_settings.max_concurrent_streams

    @property
    def _retired(self) -> bool:
        return self._timed_out or self._going_away or self._requests >= _MAX_REQUESTS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the connection preface if the server speaks HTTP/2."""
        self._transport = transport  # type: ignore[assignment]  # a TCP connection's transport writes
        self.protocol = transport.get_extra_info("ssl_object").selected_alpn_protocol() or HTTP_1_1
        if self.protocol != HTTP_2:
            return
        # The fence is checked just before a write: as little as possible may wait in this process after it.
        self._transport.set_write_buffer_limits(high=1)  # type: ignore[union-attr]  # as above
        self._liveness = asyncio.get_running_loop().call_later(self._ping_interval_s, self._check_liveness)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_CONNECTION_WINDOW)
        self._flush()

    def pause_writing(self) -> None:
        """Hold further requests back: the kernel's buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let requests continue."""
        self._writable.set()

    def _check_liveness(self) -> None:
        """Ping a silent server; close the connection if it did not respond to the last ping."""
        if self._pinged and not self._heard:
            self.close(httpx2.ReadError(f"the server gave no sign of life for {self._ping_interval_s:g} s"))
            return
        self._pinged = not self._heard
        if self._pinged:
            self._h2.ping(b"modelpln")
            self._flush()
        self._heard = False
        self._liveness = asyncio.get_running_loop().call_later(self._ping_interval_s, self._check_liveness)

    def data_received(self, data: bytes) -> None:
        """Process what the server sent."""
        self._heard = True
        try:
            for event in self._h2.receive_data(self._extract_goaway(data)):
                self._handle(event)
        except h2.exceptions.ProtocolError as error:
            self.close(httpx2.RemoteProtocolError(str(error)))
        if self._going_away and not self._responses:
            self.close(httpx2.RemoteProtocolError("the server is going away"))
        self._flush()

    def _extract_goaway(self, data: bytes) -> bytes:
        """Handle the GOAWAY frames in what was received; return the other frames that are complete.

        h2 accepts no frame after a GOAWAY, but the server still responds to the requests that it took (RFC
        9113, section 6.8). An API server sends one to every client whose credentials it refuses, before
        the response that says why.
        """
        if not self._incomplete and _are_whole(data):
            return data  # as nearly always
        self._incomplete += data
        others, start = bytearray(), 0
        while len(self._incomplete) >= start + _FRAME_HEADER:
            length = int.from_bytes(self._incomplete[start : start + 3], "big")
            if length > self._h2.max_inbound_frame_size:
                raise h2.exceptions.FrameTooLargeError(f"a frame of {length} bytes")
            content, end = start + _FRAME_HEADER, start + _FRAME_HEADER + length
            if end > len(self._incomplete):
                break
            if self._incomplete[start + 3] == _GOAWAY:
                last_taken = int.from_bytes(self._incomplete[content : content + 4], "big")
                self._go_away(last_taken & _STREAM_ID_MASK)
            else:
                others += self._incomplete[start:end]
            start = end
        del self._incomplete[:start]
        return bytes(others)

    def _go_away(self, last_taken: int) -> None:
        """Retire the connection; fail the requests above the last one that the server took."""
        self._going_away = True
        error = httpx2.RemoteProtocolError("the server goes away and did not take the request")
        for stream_id in [response for response in self._responses if response > last_taken]:
            self._finish(stream_id, error)

    def _handle(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
            self._window_opened.set()
        elif isinstance(event, h2.events.DataReceived):
            self._replenish(event.flow_controlled_length)
            if response := self._responses.get(event.stream_id):
                response.add(event.data, event.flow_controlled_length)
        elif isinstance(event, h2.events.ResponseReceived):
            if response := self._responses.get(event.stream_id):
                response.begin(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            self._finish(event.stream_id, None)
        elif isinstance(event, h2.events.StreamReset):
            reason = f"the server broke off its answer (HTTP/2 error {event.error_code})"
            self._finish(event.stream_id, httpx2.RemoteProtocolError(reason))

    def _replenish(self, received: int) -> None:
        """Open the connection's window again by what was received, in few and large steps."""
        self._unacknowledged += received
        if self._unacknowledged >= _CONNECTION_WINDOW // 2:
            self._h2.increment_flow_control_window(self._unacknowledged)
            self._unacknowledged = 0

    def acknowledge(self, stream_id: int, taken: int) -> None:
        """Let the server send as many bytes more on a stream as its reader has taken."""
        if stream_id in self._responses and self._transport is not None:
            self._h2.increment_flow_control_window(taken, stream_id)
            self._flush()

    def _finish(self, stream_id: int, error: Exception | None) -> None:
        if response := self._responses.pop(stream_id, None):
            response.end(error)
            self._window_opened.set()
        if self._retired and not self._responses:
            self.close(httpx2.ReadError("this side closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests in flight."""
        self.close(httpx2.ReadError(str(exc) if exc else "the server closed the connection"))

    def close(self, error: Exception) -> None:
        """Close the connection and fail the requests in flight."""
        if self._transport is None:
            return
        transport, self._transport = self._transport, None
        transport.abort()
        if self._liveness is not None:
            self._liveness.cancel()
        self._window_opened.set()
        self._writable.set()
        responses, self._responses = self._responses, {}
        for response in responses.values():
            response.end(error)

    def _flush(self) -> None:
        if self._transport is not None and (data := self._h2.data_to_send()):
            self._transport.write(data)

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response once its headers have arrived."""
        body = await request.aread()
        self._requests += 1
        await self._before_write(request, HEADERS_STARTED)
        if self._going_away:
            raise httpx2.WriteError("the server goes away")
        stream_id = self._h2.get_next_available_stream_id()
        response = ResponseStream(self, stream_id, request.extensions["timeout"]["read"])
        self._responses[stream_id] = response
        try:
            self._h2.send_headers(stream_id, build_http2_headers(request), end_stream=not body)
            if request.method == "GET":
                # No fence was checked for it. Those that begin together are sent together.
                asyncio.get_running_loop().call_soon(self._flush)
            elif not body:
                self._flush()
            await self._send_body(stream_id, body, request)
            status, headers = await response.wait_head()
        except BaseException:
            self.cancel(stream_id)
            raise
        return httpx2.Response(
            status, headers=headers, stream=response, extensions={"http_version": b"HTTP/2"}
        )

    async def _send_body(self, stream_id: int, body: bytes, request: httpx2.Request) -> None:
        """Send the body as the server's windows allow, the headers together with its first part."""
        while body and stream_id in self._responses:
            window = min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size)
            if window <= 0:
                self._flush()
                self._window_opened.clear()
                await self._window_opened.wait()
                continue
            await self._before_write(request, BODY_STARTED)
            part, body = body[:window], body[window:]
            self._h2.send_data(stream_id, part, end_stream=not body)
            self._flush()

    async def _before_write(self, request: httpx2.Request, step: str) -> None:
        """Wait until the kernel takes bytes, then call the request's trace, which may stop it."""
        await self._writable.wait()
        if trace := request.extensions.get("trace"):
            await trace(step, {})
        if self._transport is None:
            raise httpx2.WriteError("the connection was closed")

    def cancel(self, stream_id: int) -> None:
        """Reset a stream whose response is no longer wanted."""
        if stream_id in self._responses:
            if self._transport is not None:
                self._h2.reset_stream(stream_id, h2.errors.ErrorCodes.CANCEL)
                self._flush()
            self._finish(stream_id, httpx2.ReadError("the request was canceled"))

    def retire(self) -> None:
        """Take no further requests: a response timed out."""
        self._timed_out = True


def _encoded(
    add: Callable[[tuple[bytes, bytes], bool, bool], bytes],
    header: tuple[bytes, bytes],
    sensitive: bool,
    huffman: bool = False,  # noqa: ARG001 - part of what hpack calls
) -> bytes:
    """Return a header as the server reads it, by hpack's own way, in half of the time.

    Huffman codes save a few bytes. A path never comes again, and would only push other headers out of the
    table of those that were sent before.
    """
    return add(header, sensitive or header[0] in _NEVER_THE_SAME, False)


def _are_whole(data: bytes) -> bool:
    """Return True if data are complete frames, none of which is a GOAWAY."""
    start = 0
    while start + _FRAME_HEADER <= len(data) and data[start + 3] != _GOAWAY:
        start += _FRAME_HEADER + int.from_bytes(data[start : start + 3], "big")
    return start == len(data)


class ResponseStream(httpx2.AsyncByteStream):
    """The response to one request, as it arrives."""

    def __init__(self, connection: Connection, stream_id: int, timeout_s: float | None) -> None:
        self._connection = connection
        self._stream_id = stream_id
        self._timeout_s = timeout_s
        self._head: _Headers = []
        self._chunks: deque[tuple[bytes, int]] = deque()
        self._taken = 0
        self._ended = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    def begin(self, headers: _Headers) -> None:
        """Take the status and the headers."""
        self._head = headers
        self._changed.set()

    def add(self, chunk: bytes, window: int) -> None:
        """Buffer a chunk, and how much of the stream's window it takes."""
        self._chunks.append((chunk, window))
        self._changed.set()

    def end(self, error: Exception | None) -> None:
        """Note that nothing more will arrive, and why where the server did not finish."""
        self._ended, self._error = True, error
        self._changed.set()

    async def wait_head(self) -> tuple[int, _Headers]:
        """Return the status and the headers once they have arrived."""
        late = self._timeout_s and asyncio.get_running_loop().call_later(self._timeout_s, self._expire)
        try:
            while not self._head:
                await self._wait()
        finally:
            if late:
                late.cancel()
        status = dict(self._head).get(b":status", b"")
        if not status.isdigit():
            raise httpx2.RemoteProtocolError("the server answers without a status")
        return int(status), [header for header in self._head if not header[0].startswith(b":")]

    def _expire(self) -> None:
        if not self._head:
            self._connection.retire()
            self.end(httpx2.ReadTimeout(f"no answer within {self._timeout_s:g} s"))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._chunks:
                chunk, window = self._chunks.popleft()
                self._acknowledge(window)
                yield chunk
            if self._ended and self._error is None:
                return
            # A watch may be silent for hours; the connection's pings detect a dead server.
            await self._wait()

    def _acknowledge(self, taken: int) -> None:
        """Acknowledge what the reader took, in few and large steps."""
        self._taken += taken
        if self._taken >= _STREAM_WINDOW // 2:
            self._connection.acknowledge(self._stream_id, self._taken)
            self._taken = 0

    async def _wait(self) -> None:
        """Return when something has arrived; raise when nothing will."""
        if self._ended:
            raise self._error or httpx2.RemoteProtocolError("the server ended its answer before it began")
        self._changed.clear()
        await self._changed.wait()

    async def aclose(self) -> None:
        """Cancel the request if its response is not complete."""
        self._connection.cancel(self._stream_id)
