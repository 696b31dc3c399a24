"""More endpoints, connections and memory than the gateway has room for: the others are still served."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelplane.gateway.envoy.envoy_names import RESOURCE_MONITORS
from modelplane.gateway.route_table import Backend, Route
from modelplane.host.file_system import write_private
from modelplane.proxy import envoy_bootstrap, module
from support.envoys import EVENTS, Engine, Gateway, engines, free_ports, running_envoy, service
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

ENDPOINTS = 1000
INJECTED = "envoy.resource_monitors.injected_resource"


def fleet(engine: Engine) -> tuple[Route, ...]:
    """Return services with an endpoint each, of addresses of their own."""
    return tuple(
        service(
            Backend(f"ml/e-{number}", ((f"127.1.{number // 250}.{number % 250 + 1}", engine.port),), 1, "/"),
            name=f"s-{number}",
        )
        for number in range(ENDPOINTS)
    )


async def test_a_thousand_endpoints_with_addresses_are_served(gateway: Gateway) -> None:
    async with engines("a", "b", address="0.0.0.0") as (a, b):
        routes = fleet(a)
        await gateway.apply(*routes)
        for number in (0, 500, 999):
            assert (await gateway.get(f"/ml/s-{number}/x"))["by"] == "a"
        watching = [link for link in _descriptors(gateway.pid) if "inotify" in link]
        assert len(watching) < 10
        connected = gateway.stat("cluster.front-door/ml/e-999.upstream_cx_total")
        await gateway.apply(*fleet(b)[:1], *routes[1:])
        assert (await gateway.get("/ml/s-0/x"))["by"] == "b"
        # The connection of an unchanged backend stays.
        assert (await gateway.get("/ml/s-999/x"))["by"] == "a"
        assert gateway.stat("cluster.front-door/ml/e-999.upstream_cx_total") == connected


async def test_a_stream_survives_a_change_of_its_backends_instances(gateway: Gateway) -> None:
    async with engines("a", "b") as (a, b):
        one = a.backend()
        both = replace(one, hosts=(*one.hosts, *b.backend().hosts))
        await gateway.apply(service(one))
        seen = []
        async for event in gateway.events("/ml/qwen/x?stream"):
            seen.append(event)
            if len(seen) in (3, 8):
                await gateway.apply(service(both if len(seen) == 3 else replace(one, hosts=both.hosts[1:])))
    assert seen == [f"data: {number}" for number in range(EVENTS)]


UPLOADS = 300
UPLOAD_BYTES = 1_000_000
MEMORY_MIB = 128


async def test_uploads_beyond_the_memory_limit_are_ended_and_the_others_served(tmp_path: Path) -> None:
    async with (
        running_envoy(tmp_path, memory_bytes=MEMORY_MIB << 20) as gateway,
        engines("victim") as (victim,),
        silent_server() as silent,
    ):
        evil = Backend("ml/evil", (("127.0.0.1", silent),), prefix="/")
        await gateway.apply(service(victim.backend()), service(evil, name="evil"))
        attackers = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(UPLOADS)]
        for _, writer in attackers:
            writer.write(
                f"POST /ml/evil/x HTTP/1.1\r\nhost: g\r\ncontent-length: {UPLOAD_BYTES}\r\n\r\n".encode()
            )
        uploads = asyncio.gather(*(_upload(writer) for _, writer in attackers))
        most, answers = 0, set()
        async with asyncio.timeout(PATIENCE_S):
            # The system may have taken all that is uploaded before the gateway has read it.
            while not (uploads.done() and gateway.stat("http.front-door.downstream_rq_overload_close")):
                answers.add(await gateway.status("/ml/qwen/x"))
                most = max(most, _memory_mib(gateway.pid))
                await asyncio.sleep(0.05)
        # Without a limit, it would take all that is uploaded.
        assert most < MEMORY_MIB + 100, most
        assert answers <= {200, 503}
        await _close(attackers)
        async with asyncio.timeout(PATIENCE_S):
            while await gateway.status("/ml/qwen/x") != 200:
                await asyncio.sleep(0.1)


async def test_a_gateway_without_memory_answers_503_in_the_form_of_the_openai_api(tmp_path: Path) -> None:
    pressure = tmp_path / "pressure"
    pressure.write_text("0")

    def injected(configuration: dict[str, Any]) -> None:
        """Let a file say how much of the memory is in use."""
        manager = configuration["overload_manager"]
        name = manager["resource_monitors"].pop()["name"]
        type_ = f"{RESOURCE_MONITORS}injected_resource.v3.InjectedResourceConfig"
        monitor = {"name": INJECTED, "typed_config": {"@type": type_, "filename": str(pressure)}}
        manager["resource_monitors"].append(monitor)
        for each in (*manager["actions"], *manager["loadshed_points"]):
            for trigger in each["triggers"]:
                assert trigger["name"] == name
                trigger["name"] = INJECTED

    async with running_envoy(tmp_path, injected) as gateway, engines("a") as (engine,):
        await gateway.apply(service(engine.backend()))
        answering = gateway.events("/ml/qwen/x?stream")
        seen = [await anext(answering)]
        write_private(pressure, "0.96")
        async with asyncio.timeout(PATIENCE_S):
            while await gateway.status("/ml/qwen/x") != 503:
                await asyncio.sleep(0.05)
        async with gateway.client.get(gateway.url("/ml/qwen/x")) as response:
            assert (response.status, response.content_type) == (503, "application/json")
            assert response.headers["retry-after"] == "5"
            assert (await response.json())["error"] == {
                "message": "the gateway is short of memory and accepts no requests: try again later",
                "type": "server_error",
                "param": None,
                "code": "overloaded",
            }
        # An answer in progress goes on.
        seen += [event async for event in answering]
        assert len(seen) == EVENTS
        write_private(pressure, "0.1")
        async with asyncio.timeout(PATIENCE_S):
            while await gateway.status("/ml/qwen/x") != 200:
                await asyncio.sleep(0.05)


async def test_connections_end_before_the_open_files_do(tmp_path: Path) -> None:
    descriptors = 400

    def limited(configuration: dict[str, Any]) -> None:
        configuration["overload_manager"] = envoy_bootstrap.build_overload_manager(1 << 30, descriptors)

    running = running_envoy(tmp_path, limited, descriptors)
    async with running as gateway, engines("a") as (engine,):
        await gateway.apply(service(engine.backend()))
        attackers = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(descriptors)]
        for _, writer in attackers:
            writer.write(b"GET /ml/qwen/x?stream HTTP/1.1\r\nhost: g\r\n\r\n")
        await asyncio.sleep(1)
        assert len(_descriptors(gateway.pid)) < descriptors / 2
        # The files of its configuration can still be opened.
        await gateway.apply(service(engine.backend(prefix="/there/")))
        await _close(attackers)
        assert (await gateway.get("/ml/qwen/x"))["path"] == "/there/x"


async def test_a_connection_without_requests_is_closed(gateway: Gateway) -> None:
    listeners = gateway.directory / module.find_listeners_file(gateway.directory)
    assert '"idle_timeout":"300s"' in listeners.read_text()
    write_private(listeners, listeners.read_text().replace('"300s"', '"0.2s"'))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            with closing(writer), suppress(TimeoutError):
                if await asyncio.wait_for(reader.read(), 0.5) == b"":
                    break


async def test_a_large_request_is_retried_at_another_backend(gateway: Gateway) -> None:
    gone = Backend("ml/gone", (("127.0.0.1", next(free_ports())),), 1000, "/")
    async with engines("a") as (engine,):
        await gateway.apply(service(gone, engine.backend()))
        prompt = "x" * 900_000
        async with gateway.client.post(gateway.url("/ml/qwen/x"), data=prompt) as response:
            assert (response.status, (await response.json())["body"]) == (200, prompt)


@asynccontextmanager
async def silent_server() -> AsyncIterator[int]:
    """Run a server that reads everything and never answers; yield its port."""

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while await reader.read(1 << 20):
                pass
        writer.close()

    async with await asyncio.start_server(read, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def _upload(writer: asyncio.StreamWriter) -> None:
    """Upload at a rate that a network has: all of them together 150 MB per second."""
    with suppress(ConnectionError):
        for _ in range(UPLOAD_BYTES // 50_000):
            writer.write(bytes(50_000))
            await writer.drain()
            await asyncio.sleep(0.1)


async def _close(connections: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    for _, writer in connections:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for _, writer in connections), return_exceptions=True)


def _memory_mib(pid: int) -> int:
    [line] = re.findall(r"^Pss: +(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(line) // 1024


def _descriptors(pid: int) -> list[str]:
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # one that was closed meanwhile
            found.append(str(each.readlink()))
    return found
