"""Regions of a key in a real Envoy: no attempt at a request leaves them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelplane.gateway.envoy.module_filters import KEYS
from modelplane.gateway.module_files.keys import KeyEntry, KeyFile, NamespaceEntry
from modelplane.gateway.module_files.route_files import BackendEntry, BalancingEntry, ServiceEntry
from modelplane.gateway.route_table import Backend, Front, Route
from modelplane.host.file_system import write_private
from support.envoys import Gateway, running_envoy, service
from support.gateway_module import Model, hashed, running_model
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

CHAT = "/ml/qwen/v1/chat/completions"
REGIONS = {"own": "eu-west", "far": "us-east", "paid": "eu-north", "unknown": ""}


def key(name: str, **options: Any) -> KeyEntry:
    """Return a key; ``sk-NAME`` is its secret."""
    digest = hashed(f"sk-{name}", name)["sha256"]
    return KeyEntry(sha256=digest, id=f"ml/{name}", namespace="ml", services=("ml/*", "settled/*"), **options)


KEY_FILE = KeyFile(
    keys=(
        key("free"),
        key("bound", regions=("eu-north", "eu-west")),
        key("elsewhere", regions=("ap-south",)),
    ),
    namespaces={"ml": NamespaceEntry(services=("ml/*", "settled/*"))},
)


@pytest.fixture
async def gateway(tmp_path: Path, module_library: Path) -> AsyncIterator[Gateway]:
    async with running_envoy(tmp_path, front=Front(keys=KEY_FILE), library=module_library) as running:
        running.own_headers = {"x-api-key": "sk-free"}
        yield running


@pytest.fixture
async def models() -> AsyncIterator[dict[str, Model]]:
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(running_model()) for name in REGIONS}


def route_to(models: dict[str, Model], tiers: dict[str, int], *, policy: str = "") -> Route:
    """Return the route of a service with backends in tiers, and with a policy if there is one."""
    backends = [
        Backend(
            f"ml/{name}",
            (("127.0.0.1", models[name].port),),
            prefix="/",
            host=f"{name}.example",
            region=REGIONS[name],
            priority=tier,
        )
        for name, tier in tiers.items()
    ]
    route = service(*backends)
    if not policy:
        return route
    entries = tuple(BackendEntry(name=each.name, priority=each.priority) for each in backends)
    return replace(route, settings=ServiceEntry(balancing=BalancingEntry(policy=policy, backends=entries)))


async def settle(gateway: Gateway, route: Route) -> None:
    """Write a route, and wait until the module knows the regions of its backends."""
    await gateway.apply(route)
    async with asyncio.timeout(PATIENCE_S):
        while not (await ask(gateway, "elsewhere"))[1]["error"]["message"].startswith("no endpoint of"):
            await asyncio.sleep(0.02)


async def ask(gateway: Gateway, name: str) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer sk-{name}"}
    async with gateway.client.post(gateway.url(CHAT), json={}, headers=headers) as response:
        return response.status, await response.json()


def asked(models: dict[str, Model]) -> set[str]:
    """Return the models that were asked since the last call."""
    found = {name for name, model in models.items() if model.asked}
    for model in models.values():
        model.asked.clear()
    return found


@pytest.mark.parametrize("policy", ["", "LeastRequests"])
@pytest.mark.parametrize(
    ("tiers", "of_free"),
    [
        ({"own": 0, "far": 0, "unknown": 0, "paid": 1}, {"own", "far", "unknown"}),
        ({"far": 0, "unknown": 1, "own": 2, "paid": 3}, {"far"}),
        ({"own": 0, "far": 0, "unknown": 0, "paid": 0}, {"own", "far", "unknown", "paid"}),
    ],
    ids=["first tier", "later tiers", "one tier"],
)
async def test_requests_stay_in_the_regions_of_their_key_through_tiers_and_retries(
    gateway: Gateway,
    models: dict[str, Model],
    tiers: dict[str, int],
    of_free: set[str],
    policy: str,
) -> None:
    await settle(gateway, route_to(models, tiers, policy=policy))
    assert {(await ask(gateway, "bound"))[0] for _ in range(30)} == {200}
    assert asked(models) <= {"own", "paid"}
    assert {(await ask(gateway, "free"))[0] for _ in range(80)} == {200}
    assert asked(models) == of_free
    models["own"].status = 503
    assert {(await ask(gateway, "bound"))[0] for _ in range(30)} == {200}
    assert asked(models) == {"own", "paid"}
    models["paid"].status = 503
    assert {(await ask(gateway, "bound"))[0] for _ in range(30)} == {503}
    assert asked(models) == {"own", "paid"}


@pytest.mark.parametrize("policy", ["", "LeastRequests"])
async def test_a_key_without_an_endpoint_in_its_regions_gets_a_clear_error(
    gateway: Gateway, models: dict[str, Model], policy: str
) -> None:
    await settle(gateway, route_to(models, {"own": 0, "far": 0, "unknown": 1}, policy=policy))
    status, said = await ask(gateway, "elsewhere")
    assert (status, said["error"]) == (
        503,
        {
            "message": "no endpoint of ml/qwen is in a region that this API key allows (ap-south): try again "
            "later, or ask the owner of the key",
            "type": "server_error",
            "param": None,
            "code": "region_not_allowed",
        },
    )
    assert asked(models) == set()


async def test_a_route_that_is_older_than_the_regions_of_a_key_sends_no_request_elsewhere(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    gateway.front = Front(keys=KeyFile(keys=(key("free"),), namespaces=KEY_FILE.namespaces))
    await gateway.apply(route_to(models, {"own": 0, "far": 0, "unknown": 0}))
    write_private(gateway.directory / KEYS, KEY_FILE.encode().decode())
    while (await ask(gateway, "bound"))[0] == 401:
        pass
    asked(models)
    statuses = {(await ask(gateway, "bound"))[0] for _ in range(40)}
    assert asked(models) == {"own"}
    assert statuses <= {200, 503}
