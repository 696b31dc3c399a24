"""A name server whose answers a test changes."""

import asyncio
import ipaddress
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

_A, _AAAA = 1, 28
_TTL_S = 1


class NameServer(asyncio.DatagramProtocol):
    """Answers every name with the same addresses (RFC 1035)."""

    def __init__(self, *addresses: str) -> None:
        self.port = 0
        self.asked = 0
        self.addresses = addresses

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # asyncio's own transport for datagrams is no subclass of the class for them.
        self._transport = cast("asyncio.DatagramTransport", transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, sender: Any) -> None:
        self.asked += 1
        end = data.index(0, 12) + 5
        (type_,) = struct.unpack("!H", data[end - 4 : end - 2])
        found = [ipaddress.ip_address(each).packed for each in self.addresses]
        records = [each for each in found if len(each) == {_A: 4, _AAAA: 16}.get(type_, 0)]
        header = data[:2] + struct.pack("!HHHHH", 0x8180, 1, len(records), 0, 0)
        answers = (struct.pack("!HHHIH", 0xC00C, type_, 1, _TTL_S, len(each)) + each for each in records)
        self._transport.sendto(header + data[12:end] + b"".join(answers), sender)

    def asks(self, bootstrap: dict[str, Any]) -> None:
        """Let an Envoy ask this server alone."""
        at = {"socket_address": {"address": "127.0.0.1", "port_value": self.port, "protocol": "UDP"}}
        bootstrap["typed_dns_resolver_config"] = {
            "name": "envoy.network.dns_resolver.cares",
            "typed_config": {
                "@type": "type.googleapis.com/"
                "envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
                "resolvers": [at],
            },
        }


@asynccontextmanager
async def name_server(*addresses: str) -> AsyncIterator[NameServer]:
    """Run a name server that answers with these addresses until a test changes them."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: NameServer(*addresses), local_addr=("127.0.0.1", 0)
    )
    try:
        yield server
    finally:
        transport.close()
