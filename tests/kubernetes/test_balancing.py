"""Choice among backends by load and affinity, in a real Envoy with the module."""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from modelplane.gateway.envoy.module_filters import SERVICES
from modelplane.gateway.envoy.priority_groups import ASKED, TOLD
from modelplane.gateway.module_files.models import ModelFile, ServiceEntry as Listed
from modelplane.gateway.module_files.route_files import (
    BackendEntry,
    BalancingEntry,
    CredentialFile,
    SecretHeader,
    ServiceEntry,
)
from modelplane.gateway.route_table import Backend, CredentialReference, Front, Route
from modelplane.host.file_system import write_private
from modelplane.proxy import admin
from support.envoys import Gateway, free_ports, running_envoy, service
from support.gateway_module import Model, counters, running_model
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

CHAT = "/ml/qwen/v1/chat/completions"
_marks = itertools.count()
PAID = CredentialReference("ml", "paid", "apiKey", "authorization", "paid.example.com")


@pytest.fixture
async def gateway(tmp_path: Path, module_library: Path) -> AsyncIterator[Gateway]:
    """A gateway with two workers, which share the counts."""
    front = Front(
        credentials=CredentialFile({PAID.name: SecretHeader(PAID.header, "Bearer paid")}),
        models=ModelFile(services=(Listed(name="ml/qwen", created=5),)),
    )
    async with running_envoy(tmp_path, front=front, library=module_library) as running:
        yield running


@pytest.fixture
async def models() -> AsyncIterator[dict[str, Model]]:
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(running_model()) for name in ("a", "b", "c")}


def at(models: dict[str, Model], name: str, **options: Any) -> Backend:
    host = f"{name}.example"
    return Backend(f"ml/{name}", (("127.0.0.1", models[name].port),), prefix="/", host=host, **options)


def balanced(
    policy: str,
    *backends: Backend,
    most: dict[str, int] | None = None,
    most_queued: dict[str, int] | None = None,
) -> Route:
    """Return the route of a service with a policy, and with the maxima of some backends."""
    entries = tuple(
        BackendEntry(
            name=each.name,
            weight=each.weight,
            priority=each.priority,
            max_outstanding_requests=(most or {}).get(each.name.removeprefix("ml/")),
            max_queued_requests=(most_queued or {}).get(each.name.removeprefix("ml/")),
        )
        for each in backends
    )
    entry = BalancingEntry(policy=policy, session_header="x-session", backends=entries)
    return replace(service(*backends), settings=ServiceEntry(balancing=entry))


async def apply(gateway: Gateway, models: dict[str, Model], route: Route) -> str:
    """Write a route and its settings, and wait until the module has read them.

    Another service shows when: its settings turn the order of its tiers round. Returns its path.
    """
    tiers = (
        replace(at(models, "a"), name="ml/mark-a"),
        replace(at(models, "b", priority=1), name="ml/mark-b"),
    )
    turned = tuple(BackendEntry(name=each.name, priority=1 - each.priority) for each in tiers)
    name = f"mark-{next(_marks)}"
    mark = replace(
        service(*tiers, name=name), settings=ServiceEntry(balancing=BalancingEntry(backends=turned))
    )
    await gateway.apply(route, mark)
    await until_answered_by(gateway, f"/ml/{name}/", "mark-b")
    for model in models.values():
        model.asked.clear()
    return f"/ml/{name}/"


async def until_answered_by(gateway: Gateway, path: str, backend: str) -> None:
    """Wait until a backend answers a path three times in a row: one answer may be that of a retry."""
    in_a_row = 0
    async with asyncio.timeout(PATIENCE_S):
        while in_a_row < 3:
            in_a_row = in_a_row + 1 if await ask(gateway, path=path) == (200, backend) else 0
            await asyncio.sleep(0.02)


async def ask(gateway: Gateway, prompt: str = "x", path: str = CHAT, **headers: str) -> tuple[int, str]:
    """Return the status of an answer, and the backend that it is from."""
    asked = {ASKED: "true"} | headers
    async with gateway.client.post(gateway.url(path), json={"prompt": prompt}, headers=asked) as response:
        await response.read()
        return response.status, response.headers[TOLD].partition(";")[0].removeprefix("ml/")


@asynccontextmanager
async def streams(
    gateway: Gateway, count: int, path: str = CHAT, **headers: str
) -> AsyncIterator[Counter[str]]:
    """Hold streams open, begun at once, and yield how many each backend has; then the client leaves them."""
    asked = {ASKED: "true", "x-wait": "1"} | headers
    # Connections are spread over the workers, one for each stream.
    async with aiohttp.ClientSession() as client, AsyncExitStack() as stack:

        async def begin() -> str:
            body = {"model": "ml/qwen", "stream": True, "prompt": "x"}
            posted = client.post(gateway.url(path), json=body, headers=asked)
            response = await stack.enter_async_context(posted)
            assert response.status == 200
            return response.headers[TOLD].partition(";")[0].removeprefix("ml/")

        yield Counter(await asyncio.gather(*(begin() for _ in range(count))))


async def all_ended(gateway: Gateway) -> None:
    """Wait until no attempt is in progress."""
    async with asyncio.timeout(PATIENCE_S):
        while any(admin.read_stats(gateway.directory, r"^cluster\.front-door.*upstream_rq_active$").values()):
            await asyncio.sleep(0.02)


async def test_the_next_tier_is_asked_first_while_one_has_no_room(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    tiers = (at(models, "a"), at(models, "b", priority=1), at(models, "c", priority=2, credential=PAID))
    await apply(gateway, models, balanced("Weighted", *tiers, most={"a": 2, "b": 3}))
    for _ in range(3):
        async with streams(gateway, 8) as served:
            assert served == {"a": 2, "b": 3, "c": 3}
        # What the client has left counts no more.
        await all_ended(gateway)
    assert await ask(gateway) == (200, "a")
    for name, credentials in (("a", {None}), ("b", {None}), ("c", {"Bearer paid"})):
        assert {each["headers"].get("authorization") for each in models[name].asked} == credentials
        assert {each["headers"]["host"] for each in models[name].asked} == {f"{name}.example"}
    assert (await counters(gateway.directory))['modelplane_overflowed{service="ml/qwen"}'] == 18


async def test_counts_return_to_zero_however_requests_end(gateway: Gateway, models: dict[str, Model]) -> None:
    gone = Backend("ml/gone", (("127.0.0.1", next(free_ports())),), prefix="/")
    tiers = (at(models, "a"), at(models, "b", priority=1), at(models, "c", priority=2))
    most = {"a": 2, "gone": 1, "b": 3}
    await apply(gateway, models, balanced("LeastRequests", *tiers, gone, most=most))

    async def leave(number: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.002 * (number % 40)), streams(gateway, 1):
                await asyncio.Event().wait()

    for status in (200, 503, 200):
        models["a"].status = models["b"].status = status
        await asyncio.gather(*(leave(number) for number in range(80)))
    await all_ended(gateway)
    await apply(gateway, models, balanced("LeastRequests", *tiers, most=most))
    async with streams(gateway, 8) as served:
        assert served == {"a": 2, "b": 3, "c": 3}
    await all_ended(gateway)


async def test_a_service_that_the_model_of_the_body_names_has_its_order(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    tiers = (at(models, "a", model="own"), at(models, "b", priority=1, model="other"))
    await apply(gateway, models, balanced("Prefix", *tiers, most={"a": 1}))
    async with streams(gateway, 3, path="/v1/chat/completions") as served:
        assert served == {"a": 1, "b": 2}
    await all_ended(gateway)
    for name, model in (("a", "own"), ("b", "other")):
        assert {json.loads(asked["body"])["model"] for asked in models[name].asked} == {model}
        assert {asked["path"] for asked in models[name].asked} == {"/v1/chat/completions"}


async def test_a_request_that_left_a_tier_without_room_comes_back_to_it_if_the_others_refuse(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    tiers = (at(models, "a"), at(models, "b", priority=1), at(models, "c", priority=2, credential=PAID))
    await apply(gateway, models, balanced("Weighted", *tiers, most={"a": 1, "b": 1}))
    async with streams(gateway, 1) as served:
        assert served == {"a": 1}
        models["b"].status = models["c"].status = 429
        assert await ask(gateway) == (200, "a")
        assert [len(models[name].asked) for name in "abc"] == [2, 1, 1]
        assert models["a"].asked[-1]["headers"].get("authorization") is None
    await all_ended(gateway)
    models["a"].status = 503
    assert (await ask(gateway))[0] == 429
    assert [len(models[name].asked) for name in "abc"] == [3, 2, 2]


async def test_the_backend_with_the_fewest_requests_is_asked(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    backends = (at(models, "a"), at(models, "b"), at(models, "c", weight=2))
    await apply(gateway, models, balanced("LeastRequests", *backends))
    async with streams(gateway, 4) as served, streams(gateway, 4) as more:
        assert served + more == {"a": 2, "b": 2, "c": 4}
    await all_ended(gateway)


def load(queued: float, used: float) -> str:
    """Return a report of an engine's load."""
    named = {"num_requests_waiting": queued, "kv_cache_usage_perc": used}
    return f"JSON {json.dumps({'named_metrics': named})}"


async def test_a_backend_whose_engine_reports_more_load_gets_fewer_requests(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    models["a"].load, models["b"].load = load(0, 0.9), load(0, 0)
    await apply(gateway, models, balanced("LeastRequests", at(models, "a"), at(models, "b")))
    # Chosen at random until it reports.
    async with asyncio.timeout(PATIENCE_S):
        while await ask(gateway) != (200, "a"):
            pass
    assert {await ask(gateway) for _ in range(6)} == {(200, "b")}
    # One request counts as much as ten at the other.
    async with streams(gateway, 10) as served:
        assert served["b"] >= 9
    await all_ended(gateway)


async def test_the_next_tier_is_asked_first_while_the_engines_queue_is_too_long(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    models["a"].load = load(9, 0)
    tiers = (at(models, "a"), at(models, "c", priority=1, credential=PAID))
    await apply(gateway, models, balanced("Weighted", *tiers, most_queued={"a": 4}))
    body, headers = {"prompt": "x"}, {"endpoint-load-metrics-format": "TEXT"}
    async with gateway.client.post(gateway.url(CHAT), json=body, headers=headers) as response:
        assert response.status == 200
        # A client does not learn the load, whatever it asks for.
        assert "endpoint-load-metrics" not in response.headers
    assert await ask(gateway, **headers) == (200, "c")
    asked = {name: models[name].asked[-1]["headers"]["endpoint-load-metrics-format"] for name in "ac"}
    assert asked == {"a": "json", "c": "TEXT"}
    # It returns if the others refuse.
    models["c"].status = 503
    assert await ask(gateway) == (200, "a")


async def test_the_backend_that_answers_soonest_gets_more_and_clients_that_leave_do_not_count(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    models["a"].delay_s = 0.2
    await apply(gateway, models, balanced("TimeToFirstByte", at(models, "a"), at(models, "b")))
    answered = Counter([await ask(gateway) for _ in range(12)])
    assert answered[200, "a"] <= 2
    models["b"].delay_s = 5
    models["b"].asked.clear()
    for _ in range(20):
        await ask_and_leave(gateway, models)
    await all_ended(gateway)
    assert len(models["b"].asked) >= 15
    models["b"].delay_s = 0
    assert {await ask(gateway) for _ in range(5)} == {(200, "b")}
    # What fails does count: 500 is not tried again.
    models["b"].status = 500
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await ask(gateway)) != (200, "a"):
            assert answer[0] == 500


async def ask_and_leave(gateway: Gateway, models: dict[str, Model]) -> None:
    """Ask, and leave a moment after the request is at a backend."""

    def reached() -> int:
        return sum(len(model.asked) for model in models.values())

    before, asking = reached(), asyncio.create_task(ask(gateway))
    async with asyncio.timeout(PATIENCE_S):
        while reached() == before:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.03)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_a_backend_that_refuses_connections_counts_as_slow(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    gone = Backend("ml/gone", (("127.0.0.1", next(free_ports())),), prefix="/")
    await apply(gateway, models, balanced("TimeToFirstByte", at(models, "a"), gone))
    assert {await ask(gateway) for _ in range(24)} == {(200, "a")}
    failures = admin.read_stats(
        gateway.directory, r"^cluster\.front-door.*gone.*upstream_rq_pending_failure_eject$"
    )
    # By chance it would be every second one.
    assert 1 <= sum(failures.values()) <= 4


async def test_a_session_stays_at_its_backend_while_that_has_room(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    await apply(gateway, models, balanced("Session", *(at(models, name) for name in "abc")))
    own = {session: await ask(gateway, **{"x-session": session}) for session in map(str, range(12))}
    assert set(own.values()) == {(200, "a"), (200, "b"), (200, "c")}
    for session, backend in own.items():
        assert await ask(gateway, **{"x-session": session}) == backend
    usual = own["0"][1]
    async with streams(gateway, 12, **{"x-session": "0"}) as served:
        assert set(served) == {"a", "b", "c"}
        # A quarter more than the third part of 12, and the bound grows while they begin.
        assert served[usual] == max(served.values()) <= 6
    await all_ended(gateway)
    models[usual].status = 503
    assert (await ask(gateway, **{"x-session": "0"}))[0] == 200


async def test_prompts_with_one_beginning_go_to_one_backend(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    await apply(gateway, models, balanced("Prefix", *(at(models, name) for name in "abc")))
    system = "You are a helpful assistant. " * 100
    asked = {await ask(gateway, f"{system}{question}") for question in range(12)}
    assert len(asked) == 1
    assert {await ask(gateway, f"{number} {system}") for number in range(24)} == {
        (200, name) for name in "abc"
    }


async def test_an_order_of_backends_that_the_route_does_not_have_is_no_order(
    gateway: Gateway, models: dict[str, Model]
) -> None:
    tiers = (at(models, "a"), at(models, "c", priority=1))
    mark = await apply(gateway, models, balanced("Weighted", *tiers, most={"a": 1}))
    path = gateway.directory / SERVICES
    settings = json.loads(path.read_text())
    renamed = json.dumps(settings["services"]["ml/qwen"]).replace("ml/a", "ml/gone")
    write_private(path, json.dumps({"services": {"ml/qwen": json.loads(renamed)}}))
    await until_answered_by(gateway, mark, "mark-a")
    # One after another: each one is for a moment at the backend that is gone.
    async with streams(gateway, 1) as one, streams(gateway, 1) as two, streams(gateway, 1) as three:
        # With the order in force, one would go there; a connection that breaks may send one elsewhere.
        assert (one + two + three)["a"] >= 2
    models["a"].status = 503
    assert await ask(gateway) == (200, "c")


async def test_without_the_module_a_service_goes_by_tier_and_weight(
    tmp_path: Path, models: dict[str, Model]
) -> None:
    async with running_envoy(tmp_path) as gateway:
        tiers = (at(models, "a"), at(models, "b", priority=1), at(models, "c", priority=2))
        await gateway.apply(balanced("LeastRequests", *tiers, most={"a": 1}))
        async with streams(gateway, 4) as served:
            assert served == {"a": 4}
        models["a"].status = models["b"].status = 503
        assert await ask(gateway) == (200, "c")
        assert [len(models[name].asked) for name in "abc"] == [5, 1, 1]
