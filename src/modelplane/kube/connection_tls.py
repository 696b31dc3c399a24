"""TLS for one asyncio protocol, with a buffer small enough for a thousand connections."""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from typing import Any


class _Tls(SSLProtocol):
    """asyncio's TLS with a read buffer of 32 KiB in place of 256 KiB, held for as long as a connection."""

    max_size = 1 << 15


async def connect(protocol: asyncio.Protocol, host: str, port: int, context: ssl.SSLContext) -> None:
    """Connect a protocol over TLS; return once the handshake is complete."""
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
