"""Usage records of a real Envoy: their fields, and that none is lost or doubled."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from modelplane.gateway.envoy.access_log import STANDARD_OUTPUT
from modelplane.gateway.route_table import Backend, Front, Route
from modelplane.gateway.usage.usage_sums import UsageRecord, record_of
from modelplane.proxy import envoy_directory, gateway_metrics
from modelplane.proxy.envoy_directory import USAGE_LOG, Rotation
from modelplane.telemetry import metric_definitions
from support.envoys import Gateway, engines, free_ports, running_envoy, service
from support.gateway_module import Module, gateway_with, hashed, running_model, write_keys
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

CHAT = "/ml/qwen/v1/chat/completions"


def records(directory: Path) -> list[UsageRecord]:
    # The last line may be in the middle of being written.
    found = [record_of(line) for line in envoy_directory.read_lines(directory) if line.endswith(b"\n")]
    assert None not in found
    return [each for each in found if each]


async def recorded(directory: Path, request_id: str, details: str = "") -> UsageRecord:
    """Return the record of a request, once it is written; ``details`` tells those without an id apart."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            of_id = (each for each in records(directory) if each.request_id == request_id)
            if found := [each for each in of_id if each.details.startswith(details)]:
                return found[0]
            await asyncio.sleep(0.05)


def plain(record: UsageRecord) -> dict[str, Any]:
    """Return the fields of a record that are the same each time."""
    varying = {"time", "duration_ms", "first_token_ms", "held_ms", "bytes_received", "bytes_sent"}
    return {name: getattr(record, name) for name in record.__struct_fields__ if name not in varying}


async def ask(gateway: Gateway, path: str, number: str, **options: Any) -> str:
    headers = {"x-request-id": number} | options.pop("headers", {})
    async with gateway.client.post(gateway.url(path), headers=headers, **options) as response:
        return await response.text()


async def test_a_record_has_what_the_module_and_envoy_know_and_nothing_secret(
    tmp_path: Path, module_library: Path
) -> None:
    write_keys(tmp_path, hashed("sk-1", "ml/ci"))
    (tmp_path / "models.json").write_text('{"services": [{"name": "ml/qwen"}]}')
    front = {"authentication": "APIKey", "keys": "keys.json", "models": "models.json"}
    module = Module(module_library, front)
    async with running_model() as model, gateway_with(tmp_path, module, usage_log=USAGE_LOG) as gateway:
        gone = Backend("ml/gone", (("127.0.0.1", next(free_ports())),), 10_000, "/")
        await gateway.apply(service(gone, Backend("ml/own", (("127.0.0.1", model.port),), prefix="/deep/")))
        key = {"authorization": "Bearer sk-1"}
        asked = {"model": "a\x1b[2J\n\u202e", "stream": True, "prompt": "secret-prompt"}
        await ask(gateway, f"{CHAT}?key=secret-query", "one", json=asked, headers=key)
        await ask(gateway, CHAT, "two", json={}, headers={"authorization": "Bearer sk-secret"})
        await ask(gateway, "/not/there/x?key=secret", "three", json={}, headers=key)
        await ask(gateway, "/v1/chat/completions", "by-model", json={"model": "qwen"}, headers=key)
        left = await gateway.client.post(
            gateway.url(CHAT), json={"stream": True}, headers=key | {"x-request-id": "four", "x-wait": "1"}
        )
        for _ in range(3):
            await left.content.readline()
        left.close()
        one, two, three, four = [await recorded(tmp_path, name) for name in ("one", "two", "three", "four")]
        assert plain(one) == {
            "request_id": "one",
            "client_address": "127.0.0.1",
            "method": "POST",
            "path": CHAT,
            "key": "ml/ci",
            "namespace": "ml",
            "service": "ml/qwen",
            "model": "a\x1b[2J\n\u202e",
            "backend": "ml/own",
            "host": "",
            "backend_model": "",
            "attempts": one.attempts,
            "status": 200,
            "flags": one.flags,
            "details": "via_upstream",
            "error": "",
            "stream": True,
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "estimated": False,
        }
        assert one.first_token_ms is not None
        assert one.duration_ms is not None
        assert one.first_token_ms <= one.duration_ms
        assert one.bytes_received > 0 < one.bytes_sent
        assert (two.status, two.error, two.service, two.key) == (401, "invalid_api_key", "ml/qwen", "")
        assert (three.status, three.service, three.path) == (404, "not-found", "/not/there/x")
        by_model = await recorded(tmp_path, "by-model")
        assert (by_model.service, by_model.path) == ("ml/qwen", "/v1/chat/completions")
        assert (by_model.model, by_model.total_tokens) == ("qwen", 33)
        # A client that left: the answer had begun, and its tokens are an estimate.
        assert (four.status, four.details) == (200, "downstream_remote_disconnect")
        assert (four.prompt_tokens, four.completion_tokens, four.estimated) == (4, 2, True)
        assert "secret" not in (tmp_path / USAGE_LOG).read_text()
        # Envoy refuses it before the module sees it, and the line is a record too.
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
        malformed = await recorded(tmp_path, "", "missing_host_header")
        assert (malformed.status, malformed.method, malformed.path) == (400, "", "")
        samples = await settled(tmp_path, (metric_definitions.GATEWAY_TOKENS, ("ml/qwen", "completion")), 27)
    assert samples[metric_definitions.GATEWAY_ESTIMATED, ("ml/qwen",)] == 1
    assert samples[metric_definitions.GATEWAY_REFUSED, ("invalid_api_key",)] == 1
    assert samples[metric_definitions.GATEWAY_REQUESTS, ("2xx",)] == 3


@pytest.mark.parametrize(
    ("hops", "address"), [(0, "127.0.0.1"), (1, "203.0.113.2"), (2, "203.0.113.1"), (3, "127.0.0.1")]
)
async def test_only_the_proxies_in_front_say_who_the_client_is(
    tmp_path: Path, hops: int, address: str
) -> None:
    front = Front(trusted_hops=hops)
    async with running_envoy(tmp_path, usage_log=USAGE_LOG, front=front) as gateway:
        await gateway.apply(Route("none", "/none/"))
        await ask(gateway, "/none/x", "one", headers={"x-forwarded-for": "203.0.113.1, 203.0.113.2"})
        assert (await recorded(tmp_path, "one")).client_address == address


async def settled(directory: Path, metric: Any, value: float) -> dict[Any, float]:
    """Return all metrics, once one of them has its value: the module's are a second late."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await asyncio.to_thread(lambda: list(gateway_metrics.read_samples(directory)))
            samples = {(each.metric, each.labels): each.value for each in found}
            if samples.get(metric) == value:
                return samples
            await asyncio.sleep(0.05)


REQUESTS = 1600
CLIENTS = 16


async def test_no_record_is_lost_or_doubled_however_often_files_are_rotated(tmp_path: Path) -> None:
    async with engines("a") as (engine,), running_envoy(tmp_path, usage_log=USAGE_LOG) as gateway:
        await gateway.apply(service(engine.backend()))

        async def load(client: int) -> None:
            for number in range(REQUESTS // CLIENTS):
                await ask(gateway, "/ml/qwen/x", f"load-{client}-{number}", data=b"x")

        running = asyncio.gather(*(load(client) for client in range(CLIENTS)))
        rotation = Rotation(tmp_path, 10_000, 1000)
        while not running.done():
            await asyncio.to_thread(rotation.look)
            if (tmp_path / USAGE_LOG).stat().st_size >= 10_000:
                # As a process that ends between the rename and the request to Envoy.
                (tmp_path / USAGE_LOG).rename(rotation._next())
                rotation = Rotation(tmp_path, 10_000, 1000)
            await asyncio.sleep(0.02)
        await running
        await asyncio.to_thread(rotation.look)
        wanted = {
            f"load-{client}-{number}": 1 for client in range(CLIENTS) for number in range(REQUESTS // 16)
        }
        async with asyncio.timeout(PATIENCE_S):
            while (found := load_ids(tmp_path)).total() < REQUESTS:
                await asyncio.sleep(0.05)
        assert found == wanted
        assert envoy_directory.list_rotated(tmp_path)
        modes = {path.stat().st_mode & 0o077 for path in (tmp_path / "usage").rglob("*")}
        assert modes == {0}


def load_ids(directory: Path) -> Counter[str]:
    return Counter(each.request_id for each in records(directory) if each.request_id.startswith("load-"))


async def test_what_is_written_survives_a_kill(tmp_path: Path) -> None:
    async with engines("a") as (engine,), running_envoy(tmp_path, usage_log=USAGE_LOG) as gateway:
        await gateway.apply(service(engine.backend()))
        await asyncio.gather(
            *(ask(gateway, "/ml/qwen/x", f"load-{number}", data=b"x") for number in range(50))
        )
        async with asyncio.timeout(PATIENCE_S):
            while load_ids(tmp_path).total() < 50:
                await asyncio.sleep(0.05)
        await ask(gateway, "/ml/qwen/x", "load-last", data=b"x")
        os.kill(gateway.pid, signal.SIGKILL)
    assert load_ids(tmp_path).items() >= {f"load-{number}": 1 for number in range(50)}.items()


@pytest.mark.parametrize("log", ["/dev/full", STANDARD_OUTPUT])
async def test_a_request_is_answered_wherever_its_record_goes(tmp_path: Path, log: str) -> None:
    async with engines("a") as (engine,), running_envoy(tmp_path, usage_log=log) as gateway:
        await gateway.apply(service(engine.backend()))
        await ask(gateway, "/ml/qwen/x", "load-1", data=b"x")
        async with asyncio.timeout(PATIENCE_S):
            while log != STANDARD_OUTPUT and gateway.stat("filesystem.write_failed") == 0:
                await asyncio.sleep(0.05)
        assert (await gateway.get("/ml/qwen/x"))["by"] == "a"
    lines = (tmp_path / "log").read_bytes().splitlines()
    found = [each.request_id for each in map(record_of, lines) if each and each.request_id == "load-1"]
    assert found == (["load-1"] if log == STANDARD_OUTPUT else [])
