"""Requests of a service with one endpoint: the same for an Envoy of each kind, and counted."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.envoys import Engine, Gateway, engines, raw_get, running_envoy, service
from support.gateway_module import counters
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

LONG = "x" * 9000
PATHS = (
    ("/ml/r-1/", "", "/v1/chat?a=1&b=%20", "/ml/r-1/v1/chat?a=1&b=%20"),
    ("/", "", "/v1/models/a%20b", "/v1/models/a%20b"),
    ("/", "", "", "/"),
    ("/", "", "?a=1", "/?a=1"),
    ("/", "", "//v1", "//v1"),
    ("", "", "/v1/models", "/ml/qwen/v1/models"),
    ("/v1/", "v1", "/v1/models", "/v1/models"),
    ("/v1/", "v1", "/v1", "/v1/"),
    ("/v1/", "v1", "/v1?a=1", "/v1/?a=1"),
    ("/v1/", "v1", "/v1//models", "/v1//models"),
    ("/v1/", "v1", "/models", "/v1/models"),
    ("/v1/", "v1", "/v1beta/models", "/v1/v1beta/models"),
    ("/p/", "", f"/{LONG}?{LONG}", f"/p/{LONG}?{LONG}"),
)


def former(bootstrap: dict[str, Any]) -> None:
    """Let an Envoy pass for one that was started by release 0.9."""
    del bootstrap["node"]["metadata"]


@pytest.fixture(params=["with the module", "of the last release", "without the module"])
async def gateway(
    request: pytest.FixtureRequest, tmp_path: Path, module_library: Path
) -> AsyncIterator[Gateway]:
    options: dict[str, dict[str, Any]] = {
        "with the module": {"library": module_library},
        "of the last release": {"library": module_library, "configure": former},
        "without the module": {},
    }
    async with running_envoy(tmp_path, **options[request.param]) as running:
        yield running


async def test_an_endpoint_sees_the_same_path_and_host_whatever_envoy_it_is(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        for prefix, overlap, asked, seen in PATHS:
            backend = engine.backend(prefix=prefix, overlap=overlap, host="own.example")
            await gateway.apply(service(backend))
            said = json.loads(await raw_get(gateway.port, f"/ml/qwen{asked}"))
            assert (said["path"], said["host"]) == (seen, "own.example")


async def test_an_endpoint_of_its_own_gets_no_token_that_a_client_has(gateway: Gateway) -> None:
    spoofed = {"modelplane-gateway-even": "a", "modelplane-gateway-odd": "b", "modelplane-attempt": "7"}
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend()))
        said = await gateway.get("/ml/qwen/x", headers=spoofed)
        assert not {"modelplane-gateway-even", "modelplane-gateway-odd"} & said["headers"].keys()
        assert said["headers"].get("modelplane-attempt", "1") == "1"


@pytest.mark.parametrize("configure", [lambda _bootstrap: None, former], ids=["new", "former"])
async def test_answers_of_the_endpoint_are_counted_and_those_of_envoy_are_not(
    tmp_path: Path, module_library: Path, configure: Any
) -> None:
    async with (
        running_envoy(tmp_path, library=module_library, configure=configure) as gateway,
        engines("a") as (engine,),
    ):
        gone = Engine("gone", 1)
        await gateway.apply(service(engine.backend()), service(gone.backend(), name="gone"))
        statuses = [await gateway.status(f"/ml/{path}") for path in ("qwen/x", "qwen/x?overloaded", "gone/x")]
        assert statuses == [200, 503, 503]
        expected = {
            'modelplane_answers{endpoint="ml/a",class="2xx"}': 1,
            'modelplane_answers{endpoint="ml/a",class="5xx"}': 1,
        }
        async with asyncio.timeout(PATIENCE_S):
            while (found := await answers(gateway)) != expected:
                assert sum(found.values()) <= 2, found
                await asyncio.sleep(0.05)


async def answers(gateway: Gateway) -> dict[str, float]:
    counted = await counters(gateway.directory)
    return {name: count for name, count in counted.items() if name.startswith("modelplane_answers")}
