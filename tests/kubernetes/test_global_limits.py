"""Limits of keys that the rate limit service counts: real Envoys, the real service and a Valkey."""

import asyncio
import hashlib
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelplane.gateway.envoy import rate_limit_filter
from modelplane.gateway.module_files.keys import KeyEntry, KeyFile, NamespaceEntry
from modelplane.gateway.module_files.route_files import BackendEntry, BalancingEntry, ServiceEntry
from modelplane.gateway.route_table import Backend, Front
from support import rate_limit_service
from support.envoys import Gateway, running_envoy, service
from support.gateway_module import Model, running_model
from support.patience import PATIENCE_S
from support.rate_limit_service import Service

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(shutil.which("go") is None, reason="the service is built with go"),
]

TOKENS = 33
"""Tokens of each answer of the model."""
SETTLED = "sk-settled"


def key(name: str, namespace: str = "ml", services: str = "ml/*", **options: Any) -> KeyEntry:
    """Return a key; ``sk-NAME`` is its secret."""
    digest = hashlib.sha256(f"sk-{name}".encode()).hexdigest()
    return KeyEntry(
        sha256=digest, id=f"{namespace}/{name}", namespace=namespace, services=(services,), **options
    )


KEYS = KeyFile(
    keys=(
        *(key(f"requests-{turn}", global_limits=True, requests_per_minute=10) for turn in range(3)),
        *(key(f"tokens-{turn}", global_limits=True, tokens_per_minute=3 * TOKENS) for turn in range(3)),
        *(key(f"a-{turn}", f"team-{turn}", global_limits=True, requests_per_minute=20) for turn in range(3)),
        *(key(f"b-{turn}", f"team-{turn}", global_limits=True, requests_per_minute=20) for turn in range(3)),
        key("steady", global_limits=True, requests_per_minute=1000),
        key("local", requests_per_minute=1000),
        key("settled", "settled", "settled/*"),
    ),
    namespaces={
        "ml": NamespaceEntry(services=("ml/*",)),
        "settled": NamespaceEntry(services=("settled/*",)),
        **{
            f"team-{turn}": NamespaceEntry(services=("ml/*",), global_limits=True, requests_per_minute=15)
            for turn in range(3)
        },
    },
)


@asynccontextmanager
async def gateway_of(directory: Path, library: Path, front: Front, model: Model) -> AsyncIterator[Gateway]:
    async with running_envoy(directory, front=front, library=library) as running:
        running.own_headers = {"x-api-key": SETTLED}
        own = Backend("ml/own", (("127.0.0.1", model.port),), prefix="/")
        paid = Backend("ml/paid", (("127.0.0.1", model.port),), prefix="/", priority=1)
        entries = tuple(BackendEntry(name=each.name, priority=each.priority) for each in (own, paid))
        choice = ServiceEntry(balancing=BalancingEntry(policy="LeastRequests", backends=entries))
        await running.apply(
            service(own),
            service(own, paid, name="tiers"),
            replace(service(own, paid, name="balanced"), settings=choice),
        )
        yield running


@pytest.fixture(scope="module")
def program() -> Path:
    return rate_limit_service.build()


@pytest.fixture
async def counting(tmp_path: Path, program: Path) -> AsyncIterator[Service]:
    directory = tmp_path / "service"
    directory.mkdir()
    async with rate_limit_service.running(directory, program) as running:
        yield running


@pytest.fixture
async def gateways(tmp_path: Path, module_library: Path, counting: Service) -> AsyncIterator[list[Gateway]]:
    """Two gateways with one service."""
    front = Front(keys=KEYS, gateways=2, rate_limits=counting.settings)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(running_model())
        yield [
            await stack.enter_async_context(gateway_of(tmp_path / name, module_library, front, model))
            for name in ("one", "other")
        ]


async def ask(gateway: Gateway, name: str, of: str = "qwen") -> tuple[int, Any, Any]:
    """Return status, body and headers of the answer to a request with a key for a service."""
    headers = {"authorization": f"Bearer sk-{name}"}
    path = f"/ml/{of}/v1/chat/completions"
    async with gateway.client.post(gateway.url(path), json={}, headers=headers) as response:
        return response.status, await response.json(), response.headers


async def charged(gateway: Gateway, name: str) -> tuple[int, Any, Any]:
    """Ask, and wait until the tokens of the answer are taken, which the client does not wait for."""
    calls = f"cluster.{rate_limit_filter.CLUSTER}.upstream_rq_completed"
    before = gateway.stat(calls)
    answer = await ask(gateway, name)
    async with asyncio.timeout(PATIENCE_S):
        while gateway.stat(calls) < before + (2 if answer[0] == 200 else 1):
            await asyncio.sleep(0.01)
    return answer


async def in_one_minute(requests: Callable[[int], Awaitable[Any]]) -> Any:
    """Return what requests get that fall into one minute, which is the window of a limit."""
    for turn in range(3):
        minute = time.time() // 60
        got = await requests(turn)
        if time.time() // 60 == minute:
            return got
    pytest.fail("the requests take a minute")


@pytest.mark.parametrize("of", ["qwen", "tiers", "balanced"])
async def test_requests_are_exact_over_two_gateways(gateways: list[Gateway], of: str) -> None:
    async def forty(turn: int) -> Any:
        return await asyncio.gather(
            *(ask(gateways[number % 2], f"requests-{turn}", of) for number in range(40))
        )

    answers = await in_one_minute(forty)
    assert Counter(status for status, _, _ in answers) == {200: 10, 429: 30}
    passed = next(headers for status, _, headers in answers if status == 200)
    assert not [name for name in passed if name.startswith("x-ratelimit")]
    _, said, headers = next(each for each in answers if each[0] == 429)
    reset = headers["retry-after"]
    assert 1 <= int(reset) <= 60
    assert {name: value for name, value in headers.items() if "ratelimit" in name} == {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": reset,
    }
    assert said["error"] == {
        "message": f"the API key's limit of 10 requests per minute is reached: try again in {reset} s",
        "type": "requests",
        "param": None,
        "code": "rate_limit_exceeded",
    }


async def test_tokens_are_charged_when_the_answer_ends_over_two_gateways(gateways: list[Gateway]) -> None:
    async def six(turn: int) -> Any:
        return [await charged(gateways[number % 2], f"tokens-{turn}") for number in range(6)]

    answers = await in_one_minute(six)
    assert [status for status, _, _ in answers] == [200, 200, 200, 429, 429, 429]
    _, said, headers = answers[-1]
    assert (said["error"]["type"], headers["x-ratelimit-limit-tokens"]) == ("tokens", str(3 * TOKENS))


async def test_all_keys_of_a_namespace_count_together(gateways: list[Gateway]) -> None:
    async def twenty_four(turn: int) -> Any:
        names = (f"a-{turn}", f"b-{turn}")
        return [await ask(gateways[number % 2], names[number // 2 % 2]) for number in range(24)]

    answers = await in_one_minute(twenty_four)
    assert Counter(status for status, _, _ in answers) == {200: 15, 429: 9}
    assert "the namespace's limit of 15 requests" in answers[-1][1]["error"]["message"]


async def test_requests_of_other_keys_do_not_reach_the_service(gateways: list[Gateway]) -> None:
    asked = f"cluster.{rate_limit_filter.CLUSTER}.upstream_rq_total"
    before = [gateway.stat(asked) for gateway in gateways]
    assert {(await ask(gateways[0], "local"))[0] for _ in range(20)} == {200}
    assert [gateway.stat(asked) for gateway in gateways] == before
    assert (await ask(gateways[0], "steady"))[0] == 200
    assert [gateway.stat(asked) for gateway in gateways] == [before[0] + 1, before[1]]


async def test_a_service_that_is_killed_refuses_only_its_keys_and_keeps_the_counts(
    gateways: list[Gateway], counting: Service
) -> None:
    async def around_a_restart(turn: int) -> Any:
        name = f"requests-{turn}"
        before = [await ask(gateways[0], name) for _ in range(6)]
        await counting.kill()
        without = [await ask(gateway, name) for gateway in gateways]
        others = [await ask(gateway, "local") for gateway in gateways]
        await counting.start()
        after = [await ask(gateways[number % 2], name) for number in range(8)]
        return [[status for status, _, _ in part] for part in (before, others, after)], without

    statuses, without = await in_one_minute(around_a_restart)
    assert statuses == [[200] * 6, [200] * 2, [200] * 4 + [429] * 4]
    for status, said, headers in without:
        assert (status, said["error"]["code"]) == (503, "rate_limit_unavailable")
        assert said["error"]["type"] == "server_error"
        assert headers["retry-after"] == "5"


async def test_a_gateway_that_fails_open_serves_without_the_service(
    tmp_path: Path, module_library: Path
) -> None:
    nowhere = rate_limit_service.Service(tmp_path, tmp_path, 1, 1, 1).settings
    front = Front(keys=KEYS, rate_limits=msgspec.structs.replace(nowhere, fail_closed=False))
    async with (
        running_model() as model,
        gateway_of(tmp_path / "one", module_library, front, model) as gateway,
    ):
        assert [(await ask(gateway, "requests-0"))[0] for _ in range(11)] == [200] * 11


async def test_a_gateway_that_knows_no_service_enforces_its_part(
    tmp_path: Path, module_library: Path
) -> None:
    async with (
        running_model() as model,
        gateway_of(tmp_path / "one", module_library, Front(keys=KEYS, gateways=2), model) as gateway,
    ):
        answers = await asyncio.gather(*(ask(gateway, "requests-0") for _ in range(8)))
        assert Counter(status for status, _, _ in answers) == {200: 5, 429: 3}
