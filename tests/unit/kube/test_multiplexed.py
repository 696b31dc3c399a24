"""Requests over HTTP/2 to a server that does what the test lets it do."""

import asyncio
import asyncio.sslproto
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpx2
import hyperframe.frame
import pytest
from hyperframe.frame import GoAwayFrame

from modelplane.kube import http2
from modelplane.kube.connection import Multiplexed, _cause
from modelplane.kube.http2 import BODY_STARTED, HEADERS_STARTED
from modelplane.local.kubernetes import pki
from modelplane.local.kubernetes.control_plane import Pki
from modelplane.local.kubernetes.pki import Identity

SERVER = Identity("server", "server", (), ("127.0.0.1", "localhost"))


STATUSES = {"/no-status": ("x-status", "200"), "/not-a-number": (":status", "fine")}
"""What the server answers to some paths in place of a status."""


class Connected(asyncio.Protocol):
    """The server's side of one connection."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        configuration = h2.config.H2Configuration(
            client_side=False, header_encoding=None, validate_outbound_headers=False
        )
        self.h2 = h2.connection.H2Connection(configuration)
        self.paths: dict[int, str] = {}
        self.bodies: dict[int, bytes] = {}
        self.owed: dict[int, int] = {}
        self.sent: dict[int, int] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.server.connections.append(self)
        self.h2.initiate_connection()
        self.flush()

    def data_received(self, data: bytes) -> None:
        if self.server.dead:
            return
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                self.paths[event.stream_id] = dict(event.headers)[b":path"].decode()
                self.bodies[event.stream_id] = b""
            elif isinstance(event, h2.events.DataReceived):
                self.bodies[event.stream_id] += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                self.server.given_up.append(self.paths[event.stream_id])
            elif isinstance(event, h2.events.PingReceived):
                self.server.pings += 1
            elif isinstance(event, h2.events.StreamEnded):
                self.answer(event.stream_id)
        self.pour()

    def answer(self, number: int) -> None:
        path = self.paths[number]
        self.server.asked.append((path, len(self.bodies[number])))
        if path == "/never":
            return
        status = STATUSES.get(path, (":status", "200"))
        self.h2.send_headers(number, [status, ("content-type", "text/plain")])
        if not path.startswith("/watch"):
            self.h2.send_data(number, path.encode(), end_stream=True)

    def say_goodbye(self, last: int) -> None:
        """Say that requests up to a number will be answered; h2 itself would answer none."""
        self.transport.write(GoAwayFrame(last_stream_id=last).serialize())

    def pour(self) -> None:
        """Send what is owed, as far as the client's windows allow."""
        for number in list(self.owed):
            while size := min(self.owed[number], self.h2.local_flow_control_window(number), 1 << 14):
                self.h2.send_data(number, bytes(size))
                self.owed[number] -= size
                self.sent[number] = self.sent.get(number, 0) + size
        self.flush()

    def number(self, path: str) -> int:
        return next(number for number, known in self.paths.items() if known == path)

    def flush(self) -> None:
        self.transport.write(self.h2.data_to_send())


class Server:
    """Answers with the path; one that begins with ``/watch`` stays open, and ``/never`` is not answered."""

    def __init__(self) -> None:
        self.connections: list[Connected] = []
        self.asked: list[tuple[str, int]] = []
        self.given_up: list[str] = []
        self.pings = 0
        self.dead = False
        self.port = 0

    def send(self, path: str, data: bytes) -> None:
        """Send a piece of an answer that is open."""
        for connection in self.connections:
            if path in connection.paths.values():
                connection.h2.send_data(connection.number(path), data)
                connection.flush()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    made = Pki(tmp_path_factory.mktemp("pki"))
    pki.ensure(made, (SERVER,), datetime.now(UTC))
    return made


def _server_side(certificates: Pki, *protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.find_certificate("server"), certificates.find_key("server"))
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


@pytest.fixture
async def server(certificates: Pki) -> AsyncIterator[Server]:
    made = Server()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(
        lambda: Connected(made), "127.0.0.1", 0, ssl=_server_side(certificates, "h2")
    )
    made.port = listening.sockets[0].getsockname()[1]
    yield made
    listening.close()
    for connection in made.connections:
        connection.transport.abort()
    await asyncio.sleep(0)


@asynccontextmanager
async def _to(
    port: int, authority: Path, read_s: float = 5.0, ping_interval_s: float = 30.0
) -> AsyncIterator[httpx2.AsyncClient]:
    transport = Multiplexed(ssl.create_default_context(cafile=authority), ping_interval_s)
    async with httpx2.AsyncClient(
        base_url=f"https://127.0.0.1:{port}", transport=transport, timeout=httpx2.Timeout(5.0, read=read_s)
    ) as client:
        yield client


@pytest.fixture
async def client(server: Server, certificates: Pki) -> AsyncIterator[httpx2.AsyncClient]:
    async with _to(server.port, certificates.authority) as connected:
        yield connected


async def test_requests_that_begin_together_are_sent_together(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.get("/first")
    sent, send = [], http2.Connection._flush

    def flush(connection: http2.Connection) -> None:
        sent.append(len(connection._h2._data_to_send))
        send(connection)

    monkeypatch.setattr(http2.Connection, "_flush", flush)
    await asyncio.gather(*(client.get(f"/{number}") for number in range(5)))
    assert len([size for size in sent if size]) == 1


async def test_a_path_pushes_no_header_out_of_the_table_of_those_that_come_again(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, send = [], h2.connection.H2Connection.send_headers

    def measured(connection: h2.connection.H2Connection, *arguments: Any, **options: Any) -> None:
        send(connection, *arguments, **options)
        sizes.append(len(connection._data_to_send))

    monkeypatch.setattr(h2.connection.H2Connection, "send_headers", measured)
    for number in range(100):  # all the paths together are longer than the table
        await client.get(f"/{number:0100}", headers={"Authorization": f"Bearer {'a' * 1000}"})
    assert sizes[0] > 1000
    assert max(sizes[1:]) < 200, "each time, the path alone is new"


@pytest.mark.parametrize("path", STATUSES)
async def test_an_answer_without_a_status_is_none(client: httpx2.AsyncClient, path: str) -> None:
    with pytest.raises(httpx2.RemoteProtocolError, match="without a status"):
        await client.get(path)
    assert (await client.get("/next")).text == "/next"


async def _until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


async def test_everything_goes_over_one_connection(server: Server, client: httpx2.AsyncClient) -> None:
    answers = await asyncio.gather(*(client.get(f"/{number}") for number in range(30)))
    assert [answer.text for answer in answers] == [f"/{number}" for number in range(30)]
    assert {answer.http_version for answer in answers} == {"HTTP/2"}
    assert len(server.connections) == 1


async def test_news_on_one_of_many_watches_comes_at_once(server: Server, client: httpx2.AsyncClient) -> None:
    came: list[tuple[int, bytes]] = []

    async def watch(number: int) -> None:
        async with client.stream("GET", f"/watch/{number}") as answer:
            async for part in answer.aiter_raw():
                came.append((number, part))  # noqa: PERF401 - as it comes, not when it has ended

    watching = [asyncio.create_task(watch(number)) for number in range(20)]
    await _until(lambda: len(server.asked) == 20)
    server.send("/watch/13", b"one")
    await _until(lambda: came == [(13, b"one")])
    assert (await client.get("/beside")).text == "/beside"
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    await _until(lambda: len(server.given_up) == 20)
    assert len(server.connections) == 1


async def test_a_long_body_waits_until_the_server_takes_it(
    server: Server, client: httpx2.AsyncClient
) -> None:
    assert (await client.post("/long", content=b"x" * 3_000_000)).text == "/long"
    assert server.asked == [("/long", 3_000_000)]


async def test_a_slow_reader_buffers_one_window_and_does_not_hold_back_the_others(
    server: Server, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, slow_readers, offered = 1 << 16, 32, 100_000_000
    monkeypatch.setattr(http2, "_STREAM_WINDOW", window)
    monkeypatch.setattr(http2, "_CONNECTION_WINDOW", window * slow_readers // 2)
    async with AsyncExitStack() as stack:
        slow = [
            await stack.enter_async_context(client.stream("GET", f"/watch/{number}"))
            for number in range(slow_readers)
        ]
        [connection] = server.connections
        connection.owed = dict.fromkeys(connection.paths, offered)
        connection.pour()
        full = dict.fromkeys(connection.paths, window)  # together, twice the connection's window
        await _until(lambda: connection.sent == full)
        fast = await stack.enter_async_context(client.stream("GET", "/watch/fast"))
        number = connection.number("/watch/fast")
        connection.owed[number] = 3 * window
        connection.pour()
        assert await _size(fast, 3 * window) == connection.sent.pop(number)
        assert connection.sent == full
        assert await _size(slow[0], 3 * window) >= 3 * window
        assert list(connection.sent.values())[1:] == list(full.values())[1:]


async def _size(response: httpx2.Response, enough: int) -> int:
    """Read so much of a response, and return how much it was."""
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size >= enough:
            break
    return size


async def test_a_frame_that_is_longer_than_allowed_ends_the_connection(
    server: Server, client: httpx2.AsyncClient
) -> None:
    async with client.stream("GET", "/watch") as watch:
        server.connections[0].transport.write((1 << 20).to_bytes(3, "big") + bytes(6))
        with pytest.raises(httpx2.RemoteProtocolError, match="a frame of 1048576 bytes"):
            await anext(watch.aiter_raw())
    assert (await client.get("/again")).text == "/again"


def test_the_standard_library_stays_as_it_is() -> None:
    assert asyncio.sslproto.SSLProtocol.max_size == 256 * 1024


async def test_a_late_answer_fails_alone_and_the_next_request_goes_another_way(
    server: Server, certificates: Pki
) -> None:
    async with _to(server.port, certificates.authority, read_s=0.1) as client:
        async with client.stream("GET", "/watch") as watch:
            with pytest.raises(httpx2.ReadTimeout):
                await client.get("/never")
            assert (await client.get("/next")).text == "/next"
            assert len(server.connections) == 2
            parts = watch.aiter_raw()
            server.send("/watch", b"still here")
            assert await anext(parts) == b"still here"
            await parts.aclose()
        await _until(server.connections[0].transport.is_closing)


async def test_a_watch_that_says_nothing_is_no_reason_to_end_it(server: Server, certificates: Pki) -> None:
    async with (
        _to(server.port, certificates.authority, read_s=0.05, ping_interval_s=0.05) as client,
        client.stream("GET", "/watch") as watch,
    ):
        parts = watch.aiter_raw()
        reading = asyncio.ensure_future(anext(parts))
        await _until(lambda: server.pings > 3)
        server.send("/watch", b"at last")
        assert await reading == b"at last"
        await parts.aclose()


async def test_a_server_that_gives_no_sign_of_life_is_noticed(server: Server, certificates: Pki) -> None:
    async with _to(server.port, certificates.authority, ping_interval_s=0.05) as client:
        async with client.stream("GET", "/watch") as watch:
            server.dead = True
            with pytest.raises(httpx2.ReadError, match="no sign of life"):
                await anext(watch.aiter_raw())
        server.dead = False
        assert (await client.get("/again")).text == "/again"


@pytest.mark.parametrize("how", ["it closes the connection", "it breaks off"])
async def test_a_server_that_leaves_ends_what_is_under_way(
    server: Server, client: httpx2.AsyncClient, how: str
) -> None:
    async with client.stream("GET", "/watch") as watch:
        [connection] = server.connections
        if how == "it closes the connection":
            connection.transport.close()
        else:
            connection.h2.reset_stream(connection.number("/watch"))
            connection.flush()
        with pytest.raises(httpx2.TransportError):
            await anext(watch.aiter_raw())
    assert (await client.get("/again")).text == "/again"


async def test_a_server_that_goes_away_still_answers_what_it_took(
    server: Server, client: httpx2.AsyncClient
) -> None:
    async with client.stream("GET", "/watch") as watch:
        parts = watch.aiter_raw()
        [connection] = server.connections
        connection.say_goodbye(last=connection.number("/watch"))
        server.send("/watch", b"still here")
        assert await anext(parts) == b"still here"
        assert (await client.get("/elsewhere")).text == "/elsewhere"
        assert [list(each.paths.values()) for each in server.connections] == [["/watch"], ["/elsewhere"]]
        await parts.aclose()
    await _until(connection.transport.is_closing)


async def test_what_a_server_that_goes_away_did_not_take_fails_at_once(
    server: Server, client: httpx2.AsyncClient
) -> None:
    asking = asyncio.create_task(client.get("/never"))
    await _until(lambda: server.asked)
    server.connections[0].say_goodbye(last=0)
    with pytest.raises(httpx2.RemoteProtocolError, match="did not take"):
        await asking
    assert (await client.get("/again")).text == "/again"


async def test_who_waits_for_a_connection_shares_what_comes_of_it(certificates: Pki) -> None:
    async with _to(1, certificates.authority) as client:
        failures = await asyncio.gather(*(client.get("/") for _ in range(5)), return_exceptions=True)
    assert len({id(failure) for failure in failures}) == 1
    assert isinstance(failures[0], httpx2.ConnectError)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        pytest.param(
            OSError(111, "Connect call failed ('127.0.0.1', 6443)"), "Connection refused", id="one address"
        ),
        pytest.param(OSError("Multiple exceptions: ..."), "Multiple exceptions: ...", id="several"),
        pytest.param(
            socket.gaierror(-2, "Name or service not known"), "Name or service not known", id="a name"
        ),
        pytest.param(
            ssl.SSLError(1, "[SSL] certificate verify failed"), "[SSL] certificate verify failed", id="TLS"
        ),
    ],
)
def test_why_there_is_no_connection(error: OSError, cause: str) -> None:
    assert _cause(error) == cause


async def test_a_client_that_is_closed_fails_who_waits_for_a_connection_and_cancels_nobody(
    certificates: Pki,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel takes the connection
        async with _to(silent.getsockname()[1], certificates.authority) as client:
            asking = [asyncio.create_task(client.get("/")) for _ in range(2)]
            await asyncio.sleep(0.1)
        failures = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(failure) for failure in failures] == [httpx2.ReadError] * 2


async def test_a_request_that_is_still_waiting_when_the_client_is_closed_opens_no_connection(
    server: Server, certificates: Pki
) -> None:
    transport = Multiplexed(ssl.create_default_context(cafile=certificates.authority))
    timeout = httpx2.Timeout(5.0).as_dict()
    request = httpx2.Request("GET", f"https://127.0.0.1:{server.port}/late", extensions={"timeout": timeout})
    await transport.aclose()
    with pytest.raises(httpx2.ReadError, match="this side closed"):
        await transport.handle_async_request(request)
    assert server.connections == []


async def test_who_stops_waiting_for_a_connection_does_not_stop_it_for_others(
    client: httpx2.AsyncClient,
) -> None:
    first, second = (asyncio.create_task(client.get(f"/{name}")) for name in ("first", "second"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).text == "/second"
    with suppress(asyncio.CancelledError):
        await first


@pytest.mark.parametrize("step", [HEADERS_STARTED, BODY_STARTED])
async def test_a_request_can_be_stopped_at_the_last_moment(
    server: Server, client: httpx2.AsyncClient, step: str
) -> None:
    async def stop(name: str, _info: Any) -> None:
        if name == step:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        await client.post("/write", content=b"x", extensions={"trace": stop})
    assert (await client.get("/read")).text == "/read"
    assert server.asked == [("/read", 0)]


@pytest.mark.parametrize(
    "protocols", [pytest.param(("http/1.1",), id="chosen"), pytest.param((), id="without ALPN")]
)
async def test_a_server_that_speaks_only_http_1_is_spoken_to_in_it(
    certificates: Pki, protocols: tuple[str, ...]
) -> None:
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            received.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nold")
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=_server_side(certificates, *protocols))
    port = listening.sockets[0].getsockname()[1]
    async with listening, _to(port, certificates.authority) as client:
        for _ in range(2):
            found = await client.get("/")
            assert (found.text, found.http_version) == ("old", "HTTP/1.1")
    assert [each.split(b"\r\n")[0] for each in received] == [b"GET / HTTP/1.1"] * 2


async def test_a_connection_is_left_before_its_numbers_run_out(
    server: Server, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "_MAX_REQUESTS", 2)
    for _ in range(5):
        await client.get("/")
    assert len(server.connections) == 3


def _frame(kind: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, 0]) + (1).to_bytes(4, "big") + content


_DATA = _frame(0, b"abc")
_AWAY = _frame(7, bytes(8))


@pytest.mark.parametrize(
    ("received", "is_whole"),
    [
        pytest.param(b"", True, id="nothing"),
        pytest.param(_DATA, True, id="a frame"),
        pytest.param(_DATA + _frame(0, b"") + _DATA, True, id="several, one of them empty"),
        pytest.param(_DATA[:-1], False, id="a frame without its last byte"),
        pytest.param(_DATA + _DATA[:5], False, id="a part of the next one's head"),
        pytest.param(_AWAY, False, id="a farewell"),
        pytest.param(_DATA + _AWAY, False, id="a farewell at the end"),
        pytest.param(_DATA + _AWAY + _DATA, False, id="a farewell between"),
        pytest.param(_frame(0, _AWAY), True, id="a farewell as content"),
    ],
)
def test_only_whole_frames_without_a_farewell_are_passed_on_as_they_came(
    received: bytes, is_whole: bool
) -> None:
    assert http2._are_whole(received) == is_whole


async def test_a_frame_is_not_spelled_out_for_a_log(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(hyperframe.frame.Frame, "__repr__")
    monkeypatch.setattr(hyperframe.frame.Frame, "_body_repr", None)
    assert (await client.get("/a")).status_code == 200
