"""Requests that no client library sends: bytes over HTTP/1.1, and unchecked headers over HTTP/2."""

import asyncio
import re
from contextlib import suppress

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from support.patience import PATIENCE_S

_LENGTH = re.compile(rb"^content-length: (\d+)\r$", re.MULTILINE)
_CLOSING = re.compile(rb"^connection: close\r$", re.MULTILINE)

Fields = list[tuple[str, str]]


async def statuses(port: int, content: bytes) -> list[int]:
    """Send bytes on a connection, and return the statuses of the answers until one is the last."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sending = asyncio.create_task(_send(writer, content))
    found: list[int] = []
    try:
        # A server that has said enough may reset the connection.
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    found.append(int(head.split(b" ", 2)[1]))
                    if _CLOSING.search(head):
                        break
                    if length := _LENGTH.search(head):
                        await reader.readexactly(int(length[1]))
        return found
    finally:
        sending.cancel()
        writer.close()


async def _send(writer: asyncio.StreamWriter, content: bytes) -> None:
    with suppress(ConnectionError):
        writer.write(content)
        await writer.drain()


async def post_http2(port: int, fields: Fields, body: bytes, trailers: Fields | None = None) -> int:
    """Send one request over HTTP/2 and return its status; 0 if the server resets or closes it."""
    unchecked = h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
    connection = h2.connection.H2Connection(unchecked)
    connection.initiate_connection()
    connection.send_headers(1, fields)
    connection.send_data(1, body, end_stream=trailers is None)
    if trailers is not None:
        connection.send_headers(1, trailers, end_stream=True)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                writer.write(connection.data_to_send())
                data = await reader.read(65_536)
                if not data:
                    return 0
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.ResponseReceived):
                        return int(dict(event.headers)[b":status"])
                    if isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                        return 0
    except ConnectionError:
        return 0
    finally:
        writer.close()
