"""Probes (core/v1 ``Probe``): their schedule and results, and the HTTP, gRPC and TCP checks of an engine.

A verdict changes only after as many equal answers as its threshold; callers decide what a verdict means.

Plain sockets keep the cost of a probe every few seconds for every pod low. A gRPC server's check is one
request over HTTP/2 without TLS (gRPC Health Checking Protocol, core/v1 ``GRPCAction``). Its two messages have
one field each, so they are written and read here, and a node agent needs no library for gRPC.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

_HANG_UP_S = 0.2
_FIRST_SUCCESS_S = 0.2
"""Seconds between two checks of a container that has never succeeded."""
_SERVING = b"\x08\x01"
_LONGEST_SERVICE = 127
FIELDS = ("startupProbe", "readinessProbe", "livenessProbe")
"""A container's fields that hold its probes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a check, and the problem if it failed."""

    ok: bool
    problem: str = ""


Ask = Callable[[Mapping[str, Any], float], Awaitable[Answer]]
"""Asks once, given the handler and the time limit in seconds."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe with Kubernetes' defaults filled in; times in seconds."""

    handler: Mapping[str, Any]
    initial_delay_s: float
    period_s: float
    timeout_s: float
    success_threshold: int
    failure_threshold: int
    grace_s: float | None
    """Termination grace period after this probe fails; None means the pod's."""


def probe(container: Mapping[str, Any], field: str) -> Probe | None:
    """Return one of a container's probes; None if it has none."""
    spec = container.get(field)
    if not spec:
        return None
    grace = spec.get("terminationGracePeriodSeconds")
    return Probe(
        handler=spec,
        initial_delay_s=float(spec.get("initialDelaySeconds", 0)),
        period_s=float(spec.get("periodSeconds", 10)),
        timeout_s=float(spec.get("timeoutSeconds", 1)),
        success_threshold=int(spec.get("successThreshold", 1)),
        failure_threshold=int(spec.get("failureThreshold", 3)),
        grace_s=None if grace is None else float(grace),
    )


async def observe_verdicts(asked: Probe, ask: Ask, running_s: float) -> AsyncIterator[Answer]:
    """Probe without end; yield each verdict that differs from the previous one, as an answer.

    ``running_s`` is the time since the container started, from which the initial delay counts. Until the
    first success, the check is also made between two periods, where a failure does not count.
    """
    await asyncio.sleep(max(asked.initial_delay_s - running_s, 0.0))
    loop = asyncio.get_running_loop()
    last: bool | None = None
    succeeded = False
    streak_of, streak = True, 0
    while True:
        began = loop.time()
        answer = await ask(asked.handler, asked.timeout_s)
        streak = streak + 1 if answer.ok is streak_of else 1
        streak_of = answer.ok
        succeeded = succeeded or answer.ok
        needed = asked.success_threshold if answer.ok else asked.failure_threshold
        if streak >= needed and answer.ok is not last:
            last = answer.ok
            yield Answer(answer.ok, "" if answer.ok else answer.problem)
        while (left := began + asked.period_s - loop.time()) > 0.0:
            await asyncio.sleep(left if succeeded else min(left, _FIRST_SUCCESS_S))
            if not succeeded and left > _FIRST_SUCCESS_S and (await ask(asked.handler, asked.timeout_s)).ok:
                break


async def ask(
    handler: Mapping[str, Any],
    container: Mapping[str, Any],
    address: str,
    timeout_s: float,
    *,
    forwarded: bool = False,
) -> Answer:
    """Execute an ``httpGet``, ``grpc`` or ``tcpSocket`` handler (core/v1), within a time limit in seconds.

    ``forwarded`` means that a forwarder accepts the connections to the address.
    """
    try:
        async with asyncio.timeout(timeout_s):
            if "httpGet" in handler:
                return await _http(handler["httpGet"], container, address)
            if "grpc" in handler:
                problem = await find_grpc_problem(handler["grpc"], address)
                return Answer(problem is None, problem or "")
            return await _tcp(handler["tcpSocket"], container, address, forwarded=forwarded)
    except TimeoutError:
        return Answer(False, f"no response within {timeout_s:g} s")
    except (OSError, ValueError) as error:
        return Answer(False, str(error) or type(error).__name__)


def resolve_port(port: int | str, container: Mapping[str, Any]) -> int:
    """Return a port given by number or by a container port's name; ``ValueError`` if unknown."""
    if isinstance(port, int):
        return port
    for declared in container.get("ports", ()):
        if declared.get("name") == port:
            return int(declared["containerPort"])
    raise ValueError(f'the container has no port "{port}": add it to ports, or use a port number')


async def _tcp(
    action: Mapping[str, Any], container: Mapping[str, Any], address: str, *, forwarded: bool
) -> Answer:
    reader, writer = await asyncio.open_connection(
        action.get("host") or address, resolve_port(action["port"], container)
    )
    try:
        # A forwarder without a listener behind it hangs up at once; a server waits for the request.
        if forwarded and await _hangs_up(reader):
            return Answer(False, "nothing in the container is listening")
    finally:
        await _close(writer)
    return Answer(True)


async def _hangs_up(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(_HANG_UP_S):
            return not await reader.read(1)
    except TimeoutError:
        return False


async def _http(action: Mapping[str, Any], container: Mapping[str, Any], address: str) -> Answer:
    host = action.get("host") or address
    port = resolve_port(action["port"], container)
    reader, writer = await asyncio.open_connection(host, port, ssl=_tls(action))
    try:
        writer.write(_request(action, f"{host}:{port}"))
        await writer.drain()
        line = (await reader.readline())[:1024].decode("latin-1").strip()
    finally:
        await _close(writer)
    version, _, rest = line.partition(" ")
    code = rest.partition(" ")[0]
    if not version.startswith("HTTP/") or not code.isdecimal():
        return Answer(False, "the response is not HTTP")
    # Kubernetes, "Configure Liveness, Readiness and Startup Probes": 200 to 399 is a success.
    return Answer(200 <= int(code) < 400, f"HTTP status {code}")


def _request(action: Mapping[str, Any], authority: str) -> bytes:
    headers = {"host": authority, "user-agent": "kube-probe/modelplane", "accept": "*/*"}
    headers |= {entry["name"].lower(): entry["value"] for entry in action.get("httpHeaders", ())}
    headers["connection"] = "close"
    lines = [
        f"GET {action.get('path') or '/'} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1", "replace")


def _tls(action: Mapping[str, Any]) -> ssl.SSLContext | None:
    if action.get("scheme", "HTTP").upper() != "HTTPS":
        return None
    # As in Kubernetes, probes do not verify certificates.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def find_grpc_problem(action: Mapping[str, Any], address: str) -> str | None:
    """Return why a server is not healthy; None if it is. Raises ``OSError`` where it does not answer."""
    service = str(action.get("service") or "").encode()
    if len(service) > _LONGEST_SERVICE:
        return f"the service's name has more than {_LONGEST_SERVICE} bytes"
    message = bytes((0x0A, len(service))) + service if service else b""
    reader, writer = await asyncio.open_connection(address, int(action["port"]))
    try:
        return await _ask_grpc(reader, writer, f"{address}:{action['port']}", message)
    except ProtocolError:
        return "the response is not gRPC"
    finally:
        await _close(writer)


async def _ask_grpc(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, message: bytes
) -> str | None:
    connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    connection.initiate_connection()
    stream = connection.get_next_available_stream_id()
    connection.send_headers(
        stream,
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/grpc.health.v1.Health/Check"),
            (":authority", authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("user-agent", "kube-probe/modelplane"),
        ],
    )
    # Uncompressed, and the length in four bytes (gRPC over HTTP/2, "Length-Prefixed-Message").
    connection.send_data(stream, b"\0" + len(message).to_bytes(4, "big") + message, end_stream=True)
    answered = b""
    while True:
        writer.write(connection.data_to_send())
        await writer.drain()
        received = await reader.read(65536)
        if not received:
            return "the server closed the connection"
        for event in connection.receive_data(received):
            if isinstance(event, DataReceived):
                answered += event.data
            elif isinstance(event, StreamEnded | StreamReset):
                return None if answered[5:] == _SERVING else "the server does not report that it is serving"
            elif refused := _find_grpc_status(event):
                return refused


def _find_grpc_status(event: Event) -> str | None:
    if not isinstance(event, TrailersReceived):
        return None
    fields = {str(key): str(value) for key, value in event.headers or ()}
    status = fields.get("grpc-status", "0")
    return None if status == "0" else f"gRPC status {status}"
