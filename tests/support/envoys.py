"""Real Envoys over real servers, for the tests of the gateway."""

import asyncio
import itertools
import json
import os
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from modelplane.gateway.destinations import Destinations
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.route_table import Backend, Front, Listener, Route, Table
from modelplane.proxy import admin, envoy_bootstrap, envoy_directory as envoy_files, module
from support.certificates import authority
from support.patience import PATIENCE_S

EVENTS = 40
EVENT_S = 0.04


@dataclass(slots=True)
class Engine:
    """A server that tells what it was asked."""

    name: str
    port: int
    cut_off: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client left before its stream was complete."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "websocket" in request.query:
            return await self._echo(request)
        if "stream" in request.query:
            return await self._stream(request)
        if "overloaded" in request.query:
            return web.json_response({"by": self.name}, status=503)
        body = await request.text()
        said = {"by": self.name, "path": request.raw_path, "host": request.host, "body": body}
        return web.json_response(
            said | {"headers": {key.lower(): value for key, value in request.headers.items()}}
        )

    async def _echo(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"{request.path} {message.data}")
        return socket

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        try:
            for number in itertools.count() if "endless" in request.query else range(EVENTS):
                await response.write(f"data: {number}\n\n".encode())
                await asyncio.sleep(EVENT_S)
        except (ConnectionError, asyncio.CancelledError):
            self.cut_off.set()
            raise
        return response

    def backend(self, weight: int = 1, prefix: str = "/", **options: Any) -> Backend:
        return Backend(f"ml/{self.name}", (("127.0.0.1", self.port),), weight, prefix, **options)


LOCAL = Destinations(is_local=True)

Transform = Callable[[dict[str, str]], dict[str, str]]
"""Change of Envoy's files before they are written."""


def unchanged(content: dict[str, str]) -> dict[str, str]:
    return content


class Gateway:
    """A running Envoy."""

    def __init__(
        self,
        directory: Path,
        client: aiohttp.ClientSession,
        ports: Iterator[int],
        transform: Transform = unchanged,
        usage_log: str = "",
    ) -> None:
        self.directory = directory
        self.usage_log = usage_log
        self.client = client
        self.transform = transform
        self.port = next(ports)
        self.workload_port = next(ports)
        self.pid = 0
        self.front = Front()
        """What the module does with requests, where Envoy has it."""
        self.own_headers: dict[str, str] = {}
        """Headers of the requests that find out whether routes are in force."""
        self._writes = itertools.count()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def apply(
        self, *routes: Route, workload: tuple[Route, ...] = (), destinations: Destinations = LOCAL
    ) -> None:
        """Write routes and wait until they are in force."""
        prefix = f"/settled/{next(self._writes)}/"
        mark = Route("mark", prefix)
        table = Table(
            (
                Listener(
                    "front-door",
                    "127.0.0.1",
                    self.port,
                    (*routes, mark),
                    destinations,
                    self.front,
                    usage_log=self.usage_log,
                ),
                Listener("cluster-local", "127.0.0.1", self.workload_port, (*workload, mark)),
            )
        )
        assert envoy_files.write(self.directory, self.transform(render_files(table)))
        for port in (self.port, self.workload_port):
            async with asyncio.timeout(PATIENCE_S):
                while not await self._settled(f"http://127.0.0.1:{port}{prefix}"):
                    await asyncio.sleep(0.02)

    async def _settled(self, mark: str) -> bool:
        try:
            async with self.client.get(mark, headers=self.own_headers) as response:
                return response.status == 503
        except aiohttp.ClientConnectionError:
            return False

    async def status(self, path: str) -> int:
        async with self.client.get(self.url(path)) as response:
            return response.status

    async def get(self, path: str, **options: Any) -> dict[str, Any]:
        """Return what the engine that answered was asked."""
        async with self.client.get(self.url(path), **options) as response:
            assert response.status == 200, await response.text()
            return dict(await response.json())

    def stat(self, name: str) -> int:
        """Return one of Envoy's own counters."""
        return admin.read_stats(self.directory, f"^{name}$")[name]

    async def events(self, path: str) -> AsyncIterator[str]:
        async with self.client.get(self.url(path)) as response:
            async for line in response.content:
                if line.strip():
                    yield line.decode().strip()


_RESERVED: deque[int] = deque()
_MOST_RESERVED = 128


def free_ports() -> Iterator[int]:
    """Yield ports that nobody else gets: the last of them stay reserved for whoever reuses the address.

    A socket that is bound and does not listen keeps the kernel from giving its port away, and refuses
    connections, but with SO_REUSEADDR, which every server sets, another one listens beside it (socket(7)).
    """
    while True:
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port: int = reserved.getsockname()[1]
        _RESERVED.append(reserved.detach())
        if len(_RESERVED) > _MOST_RESERVED:
            os.close(_RESERVED.popleft())
        yield port


@asynccontextmanager
async def running_envoy(
    directory: Path,
    configure: Callable[[dict[str, Any]], None] = lambda _bootstrap: None,
    descriptors: int = 4096,
    transform: Transform = unchanged,
    environment: dict[str, str] | None = None,
    arguments: tuple[str, ...] = (),
    usage_log: str = "",
    front: Front = Front(),  # noqa: B008 - it is immutable
    **options: Any,
) -> AsyncIterator[Gateway]:
    """Run an Envoy that has only been prepared, with options.

    ``configure`` changes its bootstrap before the start, ``descriptors`` is its limit of open files.
    """
    async with aiohttp.ClientSession() as client:
        running = Gateway(directory, client, free_ports(), transform, usage_log)
        running.front = front
        listener = Listener(
            "front-door", "127.0.0.1", running.port, destinations=LOCAL, front=front, usage_log=usage_log
        )
        _prepare(directory, listener, configure, transform, **options)
        log = (directory / "log").open("wb")
        process = await asyncio.create_subprocess_exec(
            *(
                "sh",
                "-c",
                f'ulimit -n {descriptors}; exec "$@"',
                "sh",
                *envoy_bootstrap.build_argv(directory),
            ),
            *arguments,
            cwd=directory,
            env=os.environ | module.build_environment(directory) | (environment or {}),
            stdout=log,
            stderr=log,
        )
        running.pid = process.pid
        try:
            await _open(running, process)
            yield running
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
            log.close()
            admin.find_admin_socket(directory).unlink(missing_ok=True)


def _prepare(
    directory: Path,
    listener: Listener,
    configure: Callable[[dict[str, Any]], None],
    transform: Transform,
    **options: Any,
) -> None:
    directory.mkdir(exist_ok=True)
    if transform is not unchanged:
        envoy_files.write(directory, transform(render_files(Table((listener,)))))
    envoy_bootstrap.prepare(directory, (listener,), authority(directory), **options)
    path = directory / "bootstrap.json"
    configuration = json.loads(path.read_text())
    configure(configuration)
    path.write_text(json.dumps(configuration))


async def _open(gateway: Gateway, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            assert process.returncode is None, (gateway.directory / "log").read_text()
            try:
                await gateway.status("/")
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)
            else:
                return


@asynccontextmanager
async def engines(
    *names: str, tls: ssl.SSLContext | None = None, address: str | None = "127.0.0.1"
) -> AsyncIterator[tuple[Engine, ...]]:
    """Run servers on ports of their own."""
    running = []
    started = []
    for name in names:
        engine = Engine(name, next(free_ports()))
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", engine.answer)
        runner = web.AppRunner(
            application, handler_cancellation=True, shutdown_timeout=0.1, max_line_size=32_768
        )
        await runner.setup()
        await web.TCPSite(runner, address, engine.port, ssl_context=tls).start()
        running.append(runner)
        started.append(engine)
    try:
        yield tuple(started)
    finally:
        for runner in running:
            await runner.cleanup()


def service(*backends: Backend, name: str = "qwen", unavailable: str = "") -> Route:
    return Route(f"ml/{name}", f"/ml/{name}/", backends, unavailable)


async def raw_get(port: int, target: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n".encode())
    response = await reader.read()
    writer.close()
    return response.partition(b"\r\n\r\n")[2]
