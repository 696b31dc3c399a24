"""HTTP, gRPC and TCP checks of an engine, for probes and preStop hooks.

Plain sockets keep the cost of a probe every few seconds for every pod low.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.kubelet.pods import grpc_check

_STATUS_LINE_BYTES = 1024
_HANG_UP_S = 0.2


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a check, and the problem if it failed."""

    ok: bool
    problem: str = ""


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
                problem = await grpc_check.problem(handler["grpc"], address)
                return Answer(not problem, problem)
            return await _tcp(handler["tcpSocket"], container, address, forwarded=forwarded)
    except TimeoutError:
        return Answer(False, f"no answer within {timeout_s:g} s")
    except (OSError, ValueError) as error:
        return Answer(False, str(error) or type(error).__name__)


def port_number(port: int | str, container: Mapping[str, Any]) -> int:
    """Return a port given by number or by a container port's name; ``ValueError`` if unknown."""
    if isinstance(port, int):
        return port
    for declared in container.get("ports", ()):
        if declared.get("name") == port:
            return int(declared["containerPort"])
    raise ValueError(f'port "{port}" is not one of the container\'s: name it in ports, or give its number')


async def _tcp(
    action: Mapping[str, Any], container: Mapping[str, Any], address: str, *, forwarded: bool
) -> Answer:
    reader, writer = await asyncio.open_connection(
        action.get("host") or address, port_number(action["port"], container)
    )
    try:
        # A forwarder without a listener behind it hangs up at once; a server waits for the request.
        if forwarded and await _hangs_up(reader):
            return Answer(False, "nothing in the container listens")
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
    port = port_number(action["port"], container)
    reader, writer = await asyncio.open_connection(host, port, ssl=_tls(action))
    try:
        writer.write(_request(action, f"{host}:{port}"))
        await writer.drain()
        line = (await reader.readline())[:_STATUS_LINE_BYTES].decode("latin-1").strip()
    finally:
        await _close(writer)
    version, _, rest = line.partition(" ")
    code = rest.partition(" ")[0]
    if not version.startswith("HTTP/") or not code.isdecimal():
        return Answer(False, "the answer is not HTTP")
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
