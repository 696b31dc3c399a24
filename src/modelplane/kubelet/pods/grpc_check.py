"""The health check of a gRPC server (gRPC Health Checking Protocol, ``grpc.health.v1.Health/Check``).

One request over HTTP/2 without TLS, as core/v1 ``GRPCAction`` says. Its two messages have one field each, so
they are written and read here, and a node agent needs no library for gRPC.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, StreamEnded, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

_PATH = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"
_READ_BYTES = 65536
_MOST_BYTES = 127


async def problem(action: Mapping[str, Any], address: str) -> str:
    """Return why a server is not healthy; empty if it is. Raises ``OSError`` where it does not answer."""
    service = str(action.get("service") or "").encode()
    if len(service) > _MOST_BYTES:
        return f"the service's name has more than {_MOST_BYTES} bytes"
    message = bytes((0x0A, len(service))) + service if service else b""
    reader, writer = await asyncio.open_connection(address, int(action["port"]))
    try:
        return await _asked(reader, writer, f"{address}:{action['port']}", message)
    except ProtocolError:
        return "the answer is not gRPC"
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, message: bytes
) -> str:
    connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    connection.initiate_connection()
    stream = connection.get_next_available_stream_id()
    connection.send_headers(
        stream,
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", _PATH),
            (":authority", authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("user-agent", "kube-probe/modelplane"),
        ],
    )
    # Uncompressed, and the length in four bytes (gRPC over HTTP/2, "Length-Prefixed-Message").
    framed = b"\0" + len(message).to_bytes(4, "big") + message
    connection.send_data(stream, framed, end_stream=True)
    answered = b""
    while True:
        writer.write(connection.data_to_send())
        await writer.drain()
        received = await reader.read(_READ_BYTES)
        if not received:
            return "the server closed the connection"
        for event in connection.receive_data(received):
            if isinstance(event, DataReceived):
                answered += event.data
            elif isinstance(event, StreamEnded | StreamReset):
                return "" if answered[5:] == _SERVING else "the server does not say that it serves"
            elif refused := _refusal(event):
                return refused


def _refusal(event: Event) -> str:
    """Return the status of gRPC in an event, unless it is OK."""
    if not isinstance(event, TrailersReceived):
        return ""
    fields = {str(key): str(value) for key, value in event.headers or ()}
    status = fields.get("grpc-status", "0")
    return "" if status == "0" else f"gRPC status {status}"
