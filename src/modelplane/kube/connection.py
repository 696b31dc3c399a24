"""HTTP client of an API server, from a kubeconfig or the service account of a pod.

lightkube reads both, and authenticates (certificates, tokens, exec plugins). Nothing is sent yet.

All requests and watches to one server share a connection of HTTP/2. A fleet has thousands of watches. Over
HTTP/1.1 each of them is a TCP connection with a TLS handshake and buffers of its own. A server that does not
offer HTTP/2 is reached over HTTP/1.1.

A connection on which a response timed out takes no further request, because it may be dead. The requests
in flight on it continue, each until its own timeout.
"""

import asyncio
import base64
import contextlib
import os
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig

from modelplane.kube import errors
from modelplane.kube.http2 import HTTP_1_1, HTTP_2, Connection

_PING_INTERVAL_S = 30.0


class Multiplexed(httpx2.AsyncBaseTransport):
    """The connections to one server: one, unless it is full or retired."""

    def __init__(self, context: ssl.SSLContext, ping_interval_s: float = _PING_INTERVAL_S) -> None:
        """Ping a server that is silent for ``ping_interval_s``, and give it up after as long again."""
        self._ping_interval_s = ping_interval_s
        self._http1 = httpx2.AsyncHTTPTransport(verify=context, trust_env=False)
        context.set_alpn_protocols((HTTP_2, HTTP_1_1))
        self._context = context
        self._connections: list[Connection] = []
        self._connecting: asyncio.Task[None] | None = None
        self._offers_http2 = True
        self._closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response once its headers have arrived."""
        while self._offers_http2:
            self._connections = [candidate for candidate in self._connections if candidate.is_open]
            for connection in self._connections:
                if connection.is_available:
                    return await connection.send(request)
            if self._closed:
                raise httpx2.ReadError("this side closed the connection")
            if self._connecting is None:
                self._connecting = asyncio.create_task(self._connect(request))
                self._connecting.add_done_callback(self._connected)
            connecting = self._connecting
            # All requests that wait share the outcome; one that is cancelled does not cancel the attempt.
            await asyncio.wait({connecting})
            if connecting.cancelled():
                raise httpx2.ReadError("this side closed the connection")
            connecting.result()
        return await self._http1.handle_async_request(request)

    async def _connect(self, request: httpx2.Request) -> None:
        url, connection = request.url, Connection(self._ping_interval_s)
        limit_s = request.extensions["timeout"]["connect"]
        try:
            async with asyncio.timeout(limit_s):
                await _connect_tls(connection, url.host, url.port or 443, self._context)
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(
                f"no connection to {url.netloc.decode()} within {limit_s:g} s"
            ) from error
        except OSError as error:
            raise httpx2.ConnectError(f"no connection to {url.netloc.decode()}: {_cause(error)}") from error
        if connection.protocol is None:
            raise httpx2.ConnectError(f"{url.netloc.decode()} closed the connection during the handshake")
        if connection.protocol == HTTP_2:
            self._connections.append(connection)
        else:
            connection.close(httpx2.ReadError("the server does not offer HTTP/2"))
            self._offers_http2 = False

    def _connected(self, attempt: asyncio.Task[None]) -> None:
        self._connecting = None
        if not attempt.cancelled():
            attempt.exception()  # the requests that waited raise it; there may be none left

    async def aclose(self) -> None:
        """Close every connection and fail the requests in flight."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        for connection in self._connections:
            connection.close(httpx2.ReadError("this side closed the connection"))
        await self._http1.aclose()


def _cause(error: OSError) -> str:
    """Return the operating system's message, without what asyncio adds to it."""
    if error.errno is None or error.errno < 0 or isinstance(error, ssl.SSLError):  # not an errno
        return error.strerror or str(error)
    return os.strerror(error.errno)


class _Tls(SSLProtocol):
    """asyncio's TLS with a read buffer of 32 KiB in place of 256 KiB, held for as long as a connection."""

    max_size = 1 << 15


async def _connect_tls(protocol: asyncio.Protocol, host: str, port: int, context: ssl.SSLContext) -> None:
    """Connect a protocol over TLS with the small buffer; return once the handshake is complete."""
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


class Direct(httpx2.AsyncClient):
    """A client that hands its requests to the transport.

    No API server sends cookies or redirects that are followed. What httpx prepares for them and for reading a
    body takes as much processor time as the rest of httpx.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport, **settings: Any) -> None:
        super().__init__(transport=transport, **settings)
        self._hand_over = transport.handle_async_request
        if self.auth is None and self.base_url.userinfo:
            self.auth = (self.base_url.username, self.base_url.password)

    async def send(self, request: httpx2.Request, *, stream: bool = False, **_others: Any) -> httpx2.Response:
        """Return the response to a request as this client; with ``stream``, before its body."""
        if self.is_closed:
            raise RuntimeError("the client has been closed")
        flow = (self.auth or httpx2.Auth()).async_auth_flow(request)
        try:
            response = await self._hand_over(await anext(flow))
            try:
                while (again := await _after(flow, response)) is not None:
                    await response.aread()
                    response = await self._hand_over(again)
                response.request = request
                if not stream:
                    await response.aread()
            except BaseException:
                await response.aclose()
                raise
        finally:
            await flow.aclose()
        return response


async def _after(
    flow: AsyncGenerator[httpx2.Request, httpx2.Response], response: httpx2.Response
) -> httpx2.Request | None:
    """Return the request that authentication sends after a response; None if that is the answer."""
    try:
        return await flow.asend(response)
    except StopAsyncIteration:
        return None


def connect_by_kubeconfig(
    kubeconfig: str | Mapping[str, Any], timeout_s: float, context: str = ""
) -> httpx2.AsyncClient:
    """Return the connections of a kubeconfig's current context, or of a named one.

    Raises ``ValueError`` for a kubeconfig that cannot be used.
    """
    try:
        if isinstance(kubeconfig, str):
            config = KubeConfig.from_file(kubeconfig)
        else:
            config = KubeConfig.from_dict(dict(kubeconfig))
        return _http(config, timeout_s, context)
    except Exception as error:
        # Certificates are read here too, and what is wrong with them is not one kind of error.
        raise _unusable(error) from error


def find_namespace(kubeconfig: str, context: str = "") -> str:
    """Return the namespace of a kubeconfig's current context, or of a named one; "default" if it has none.

    Raises ``ValueError`` for a kubeconfig that cannot be used.
    """
    try:
        return _choose(KubeConfig.from_file(kubeconfig), context).namespace
    except Exception as error:
        raise _unusable(error) from error


def _unusable(error: Exception) -> ValueError:
    return ValueError(f"cannot use the kubeconfig: {errors.describe_error(error)}")


def connect_as_service_account(account: Path, timeout_s: float) -> httpx2.AsyncClient:
    """Return the connections of the service account of the pod that this runs in.

    Raises ``ValueError`` where this is no pod, or one without a service account.
    """
    try:
        return _http(KubeConfig.from_service_account(account), timeout_s)
    except Exception as error:
        missing = (
            f"there is no {error.args[0]}" if isinstance(error, KeyError) else errors.describe_error(error)
        )
        raise ValueError(f"cannot use a pod's service account: {missing}") from error


def _http(config: KubeConfig, timeout_s: float, context: str = "") -> httpx2.AsyncClient:
    single = _choose(config, context)
    parameters = ConnectionParams(timeout=httpx2.Timeout(timeout_s), trust_env=False)
    with _nameless(single) as config_in_memory:
        settings = parameters.httpx_params(config_in_memory)
    if str(settings["base_url"]).startswith("https:"):
        return Direct(**settings | {"transport": Multiplexed(settings["verify"])})
    return httpx2.AsyncClient(**settings)


def _choose(config: KubeConfig, context: str) -> SingleConfig:
    single = config.get(context or None)
    if single is None:
        raise ValueError("it has no current context")
    return single


@contextlib.contextmanager
def _nameless(config: SingleConfig) -> Iterator[SingleConfig]:
    """Yield a configuration whose client certificate and key are in memory, not in named files.

    OpenSSL reads them from files only, and a file would survive a process that is killed.
    """
    user = config.user
    if user is None or not hasattr(os, "memfd_create"):
        yield config
        return
    with contextlib.ExitStack() as opened:
        held: dict[str, str | None] = {}
        for field in ("client_cert", "client_key"):
            if data := getattr(user, f"{field}_data"):
                held |= {field: _in_memory(base64.b64decode(data), opened), f"{field}_data": None}
        yield config._replace(user=msgspec.structs.replace(user, **held))


def _in_memory(content: bytes, opened: contextlib.ExitStack) -> str:
    file = opened.enter_context(os.fdopen(os.memfd_create("client"), "wb", buffering=0))
    file.write(content)
    return f"/proc/self/fd/{file.fileno()}"
