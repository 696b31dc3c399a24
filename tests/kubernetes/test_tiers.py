"""Tiers of a route in a real Envoy: which backends are asked, how often, and what the client gets."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from modelplane.gateway.envoy.priority_groups import ASKED, TOLD
from modelplane.gateway.route_table import Backend
from support.envoys import Gateway, engines, free_ports, running_envoy, service
from support.gateway_module import Model, Module, gateway_with, running_model

pytestmark = pytest.mark.kubernetes

CHAT = "/ml/qwen/v1/chat/completions"
BODY = b'{"prompt": "x"}'


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_envoy(tmp_path) as running:
        yield running


@pytest.fixture(params=["lua", "module"])
async def either(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    """An Envoy without and with the module: both rewrite each attempt."""
    if request.param == "lua":
        async with running_envoy(tmp_path) as running:
            yield running
    else:
        library = request.getfixturevalue("module_library")
        async with gateway_with(tmp_path, Module(library)) as running:
            yield running


def at(port: int, name: str, priority: int, weight: int = 1) -> Backend:
    host = f"{name}.example"
    return Backend(f"ml/{name}", (("127.0.0.1", port),), weight, f"/{name}/", host=host, priority=priority)


@asynccontextmanager
async def models(*names: str) -> AsyncIterator[dict[str, Model]]:
    async with contextlib.AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(running_model()) for name in names}


async def ask(gateway: Gateway, **headers: str) -> tuple[int, str]:
    """Return the status of an answer, and the backend that it says it is from."""
    asking = {ASKED: "true"} | headers
    asking |= {"content-type": "application/json"}
    async with gateway.client.post(gateway.url(CHAT), data=BODY, headers=asking) as response:
        await response.read()
        return response.status, response.headers.get(TOLD, "")


async def test_each_backend_is_asked_once_tier_after_tier_with_its_own_path_and_host(
    either: Gateway,
) -> None:
    async with models("a", "b", "c", "last") as running:
        tiers = {"a": 0, "b": 0, "c": 4, "last": 7}
        gone = at(next(free_ports()), "gone", 2)
        await either.apply(
            service(gone, *(at(running[name].port, name, tier) for name, tier in tiers.items()))
        )
        for name, status in (("a", 503), ("b", 429), ("c", 503)):
            running[name].status = status
        for _ in range(5):
            assert await ask(either) == (200, "ml/last; priority=7")
        assert {name: len(model.asked) for name, model in running.items()} == dict.fromkeys(tiers, 5)
        for name, model in running.items():
            assert {each["path"] for each in model.asked} == {f"/{name}/v1/chat/completions"}
            assert {each["headers"]["host"] for each in model.asked} == {f"{name}.example"}
            assert {each["body"] for each in model.asked} == {BODY.decode()}
        running["last"].status = 429
        assert await ask(either) == (429, "ml/last; priority=7")
        running["c"].status = 400
        assert await ask(either) == (400, "ml/c; priority=4")
        running["b"].status = 200
        assert await ask(either) == (200, "ml/b; priority=0")
        assert await ask(either, **{ASKED: "no"}) == (200, "")


async def test_the_first_tier_shares_by_weight_and_the_next_gets_nothing(gateway: Gateway) -> None:
    async with models("a", "b", "next") as running:
        a, b, following = (running[name].port for name in running)
        await gateway.apply(service(at(a, "a", 0, 3), at(b, "b", 0), at(following, "next", 1, 1000)))
        answers = await asyncio.gather(*(ask(gateway) for _ in range(200)))
    assert {status for status, _ in answers} == {200}
    # Five standard deviations of 200 draws.
    assert 120 <= len(running["a"].asked) <= 180
    assert (len(running["a"].asked) + len(running["b"].asked), running["next"].asked) == (200, [])


async def test_what_ends_after_its_first_byte_is_asked_nowhere_else(gateway: Gateway) -> None:
    async with models("next") as running:
        async with breaking(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ndata: 0\n\n") as port:
            await gateway.apply(service(at(port, "own", 0), at(running["next"].port, "next", 1)))
            with pytest.raises(aiohttp.ClientPayloadError):
                await ask(gateway)
        assert running["next"].asked == []
        async with breaking(b"") as port:
            await gateway.apply(service(at(port, "own", 0), at(running["next"].port, "next", 1)))
            assert await ask(gateway) == (200, "ml/next; priority=1")


@asynccontextmanager
async def breaking(said: bytes) -> AsyncIterator[int]:
    """Run a server that reads a request, says this much, and closes the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # To its end: what is not read is a reset, which may overtake what was said.
        await reader.readuntil(BODY)
        writer.write(said)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_the_next_tier_answers_while_the_first_is_gone(gateway: Gateway) -> None:
    port = next(free_ports())
    async with engines("next") as (following,):
        await gateway.apply(
            service(Backend("ml/own", (("127.0.0.1", port),), prefix="/"), following.backend(priority=1))
        )
        for _ in range(2):
            async with own(port):
                assert (await gateway.get("/ml/qwen/x"))["by"] == "own"
            # More failures than an instance may have until it is skipped.
            for _ in range(6):
                assert (await gateway.get("/ml/qwen/x"))["by"] == "next"


@asynccontextmanager
async def own(port: int) -> AsyncIterator[None]:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"by": "own"})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield
    finally:
        await runner.cleanup()


async def test_no_request_fails_while_tiers_change(gateway: Gateway) -> None:
    async with engines("a", "b") as (a, b):
        gone = Backend("ml/gone", (("127.0.0.1", next(free_ports())),), prefix="/")
        tables = (
            (gone, a.backend(priority=1)),
            (b.backend(), a.backend(priority=3)),
            (a.backend(), b.backend()),
            (gone, b.backend(priority=1), a.backend(priority=2)),
            (a.backend(),),
        )
        statuses: Counter[int] = Counter()
        done = asyncio.Event()

        async def keep_asking() -> None:
            while not done.is_set():
                statuses[await gateway.status("/ml/qwen/x")] += 1

        await gateway.apply(service(*tables[0]))
        asking = [asyncio.create_task(keep_asking()) for _ in range(4)]
        for table in tables * 2:
            await gateway.apply(service(*table))
        done.set()
        await asyncio.gather(*asking)
    assert set(statuses) == {200}
