"""Held requests in a real Envoy with the gateway's module wait for the first backend of their service."""

import asyncio
import io
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.gateway.module_files.models import ModelFile, ServiceEntry as NamedService
from modelplane.gateway.module_files.route_files import HoldEntry, ServiceEntry
from modelplane.gateway.route_table import Backend, Front, Route
from support.envoys import Gateway, raw_get, running_envoy
from support.gateway_module import Model, counters, running_model
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

CHAT = "/ml/qwen/v1/chat/completions"
LARGE = 5 << 20


@pytest.fixture
async def gateway(tmp_path: Path, module_library: Path) -> AsyncIterator[Gateway]:
    """A gateway with two workers."""
    models = ModelFile(services=(NamedService(name="ml/qwen", created=1),))
    async with running_envoy(tmp_path, library=module_library, front=Front(models=models)) as running:
        yield running


def holding(*backends: Backend, timeout_s: int = 60, most: int = 100) -> Route:
    settings = ServiceEntry(hold=HoldEntry(timeout_seconds=timeout_s, max_requests=most))
    return Route("ml/qwen", "/ml/qwen/", backends, "no replica", settings)


def at(model: Model) -> Backend:
    return Backend("ml/qwen-1", (("127.0.0.1", model.port),), prefix="/")


_probes = itertools.count()


async def apply(gateway: Gateway, *routes: Route) -> None:
    """Write routes and settings, and wait until both are in force."""
    name = f"probe-{next(_probes)}"
    full = ServiceEntry(hold=HoldEntry(timeout_seconds=1, max_requests=0))
    probe = Route(f"ml/{name}", f"/ml/{name}/", unavailable="no replica", settings=full)
    await gateway.apply(*routes, probe)
    async with asyncio.timeout(PATIENCE_S):
        while (await ask(gateway, path=f"/ml/{name}/x"))[1]["error"]["code"] != "too_many_held":
            await asyncio.sleep(0.02)


async def ask(gateway: Gateway, size: int = 10, path: str = CHAT) -> tuple[int, Any]:
    body = io.BytesIO(json.dumps({"model": "ml/qwen", "prompt": "x" * size}).encode())
    headers = {"content-type": "application/json"}
    async with gateway.client.post(gateway.url(path), data=body, headers=headers) as response:
        return response.status, await response.json()


async def until_held(gateway: Gateway, number: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await held(gateway) != number:
            await asyncio.sleep(0.05)


async def held(gateway: Gateway) -> int | None:
    return (await counters(gateway.directory)).get('modelplane_held_requests{service="ml/qwen"}')


async def ended(gateway: Gateway, result: str) -> int | None:
    labels = f'{{service="ml/qwen",result="{result}"}}'
    return (await counters(gateway.directory)).get(f"modelplane_holds{labels}")


async def test_requests_wait_for_the_first_backend_of_their_service(gateway: Gateway) -> None:
    await apply(gateway, holding())
    sizes = [LARGE, *(10 for _ in range(50))]
    paths = [CHAT, "/ml/qwen/v1/embeddings", "/v1/embeddings"]
    asking = [asyncio.create_task(ask(gateway, size, paths[at % 3])) for at, size in enumerate(sizes)]
    await until_held(gateway, 51)
    async with running_model() as model:
        await apply(gateway, holding(at(model)))
        answers = await asyncio.gather(*asking)
        assert Counter(status for status, _ in answers) == {200: 51}
        assert max(said["bytes"] for _, said in answers) > LARGE
        assert {each["path"] for each in model.asked} == {"/v1/chat/completions", "/v1/embeddings"}
        assert (await held(gateway), await ended(gateway, "released")) == (0, 51)
        # With a backend, and again without one.
        assert [(await ask(gateway, path=path))[0] for path in paths] == [200] * 3
        assert await ended(gateway, "released") == 51
        await apply(gateway, holding())
        late = asyncio.create_task(ask(gateway))
        await until_held(gateway, 1)
        await apply(gateway, holding(at(model)))
        assert (await late)[0] == 200
    log = (gateway.directory / "log").read_text()
    assert "panic" not in log.lower()


async def test_a_request_waits_no_longer_than_its_limit_and_no_more_of_them_than_theirs(
    gateway: Gateway,
) -> None:
    await apply(gateway, holding(most=2))
    asking = [asyncio.create_task(ask(gateway)) for _ in range(2)]
    await until_held(gateway, 2)
    status, said = await ask(gateway)
    assert (status, said["error"]["code"]) == (503, "too_many_held")
    for task in asking:
        task.cancel()
    await until_held(gateway, 0)
    await apply(gateway, holding(timeout_s=1, most=2))
    asking = [asyncio.create_task(ask(gateway)) for _ in range(2)]
    for status, said in await asyncio.gather(*asking):
        assert (status, said["error"]["code"], said["error"]["type"]) == (503, "hold_timeout", "server_error")
        assert said["error"]["message"] == ("no replica of ml/qwen became ready within 1 s: try again later")
    assert (await held(gateway), await ended(gateway, "timed_out")) == (0, 2)


async def test_a_client_that_leaves_is_forgotten(gateway: Gateway) -> None:
    await apply(gateway, holding())
    asking = [asyncio.create_task(ask(gateway, size)) for size in (10, LARGE)]
    await until_held(gateway, 2)
    for task in asking:
        task.cancel()
    await until_held(gateway, 0)
    assert await ended(gateway, "left") == 2
    async with running_model() as model:
        await apply(gateway, holding(at(model)))
        assert (await ask(gateway))[0] == 200
        assert len(model.asked) == 1


async def test_a_body_that_grows_while_its_request_waits_is_limited(gateway: Gateway) -> None:
    await apply(gateway, holding())

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * (1 << 20)

    async with gateway.client.post(gateway.url("/ml/qwen/v1/files"), data=endless()) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (413, "request_too_large")
    assert await held(gateway) == 0


async def test_other_services_and_services_without_hold_are_refused_at_once(gateway: Gateway) -> None:
    await apply(gateway, holding(), Route("ml/other", "/ml/other/", unavailable="no replica"))
    status, said = await ask(gateway, path="/ml/other/v1/embeddings")
    assert (status, said["error"]["code"]) == (503, "no_ready_endpoint")
    # A path that is refused is so at once.
    refused = await asyncio.wait_for(raw_get(gateway.port, "/ml/qwen/%2e%2e/x"), PATIENCE_S)
    assert json.loads(refused)["error"]["code"] == "ambiguous_path"
    # The state of held requests is the module's alone.
    headers = {"modelplane.held": "1", "x-modelplane-held": "1"}
    async with gateway.client.get(gateway.url("/ml/other/x"), headers=headers) as response:
        assert response.status == 503
    assert await held(gateway) is None
