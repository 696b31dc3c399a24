"""Held requests in a real Envoy with the gateway's module: they wait for the first backend of their service."""

import asyncio
import json
import signal
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from modelplane.gateway.service_file import HoldEntry, ServiceEntry
from modelplane.gateway.table import Backend, Front, Route
from support.envoys import Gateway, running_envoy
from support.gateway_module import Model, counters, running_model

pytestmark = pytest.mark.kubernetes

CHAT = "/ml/qwen/v1/chat/completions"
LARGE = 5 << 20


@pytest.fixture
async def gateway(tmp_path: Path, module_library: Path) -> AsyncIterator[Gateway]:
    """A gateway with two workers."""
    workers = ("--concurrency", "2")
    async with running_envoy(tmp_path, library=module_library, front=Front(), arguments=workers) as running:
        yield running


def holding(*backends: Backend, timeout_s: int = 60, most: int = 100) -> Route:
    settings = ServiceEntry(hold=HoldEntry(timeout_seconds=timeout_s, max_requests=most))
    return Route("ml/qwen", "/ml/qwen/", backends, "no replica", settings)


def at(model: Model) -> Backend:
    return Backend("ml/qwen-1", (("127.0.0.1", model.port),), prefix="/")


async def ask(gateway: Gateway, size: int = 10, path: str = CHAT) -> tuple[int, Any]:
    body = {"prompt": "x" * size}
    async with gateway.client.post(gateway.url(path), json=body) as response:
        return response.status, await response.json()


async def until_held(gateway: Gateway, number: int) -> None:
    async with asyncio.timeout(30):
        while await held(gateway) != number:
            await asyncio.sleep(0.05)


async def held(gateway: Gateway) -> int | None:
    return (await counters(gateway.directory)).get('modelplane_held_requests{service="ml/qwen"}')


async def ended(gateway: Gateway, outcome: str) -> int | None:
    labels = f'{{service="ml/qwen",outcome="{outcome}"}}'
    return (await counters(gateway.directory)).get(f"modelplane_holds{labels}")


async def test_requests_wait_for_the_first_backend_of_their_service(gateway: Gateway) -> None:
    await gateway.apply(holding())
    sizes = [LARGE, *(10 for _ in range(50))]
    paths = [CHAT, "/ml/qwen/v1/embeddings"]
    asking = [asyncio.create_task(ask(gateway, size, paths[at % 2])) for at, size in enumerate(sizes)]
    await until_held(gateway, 51)
    async with running_model() as model:
        await gateway.apply(holding(at(model)))
        answers = await asyncio.gather(*asking)
        assert Counter(status for status, _ in answers) == {200: 51}
        assert max(said["bytes"] for _, said in answers) > LARGE
        assert {each["path"] for each in model.asked} == {"/v1/chat/completions", "/v1/embeddings"}
        assert (await held(gateway), await ended(gateway, "released")) == (0, 51)
        # With a backend, and again without one.
        assert (await ask(gateway))[0] == 200
        await gateway.apply(holding())
        late = asyncio.create_task(ask(gateway))
        await until_held(gateway, 1)
        await gateway.apply(holding(at(model)))
        assert (await late)[0] == 200
    log = (gateway.directory / "log").read_text()
    assert "panic" not in log.lower()
