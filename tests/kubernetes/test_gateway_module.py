"""The gateway module in a real Envoy: keys, limits, models, token counts, credentials."""

import asyncio
import datetime as dt
import io
import json
import mmap
import os
import random
import re
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import h2.connection
import h2.events
import psutil
import pytest

from modelplane.api.inference_gateway import KeyGrant
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.module_files.keys import KeyTable, build_key_table
from modelplane.gateway.route_table import Backend, Listener, Route, Table
from modelplane.host.file_system import write_private
from modelplane.local import gateway_module
from modelplane.operations.api_keys import encode_hash, hash_key as new_hash, make_key
from modelplane.proxy import envoy_bootstrap
from support.envoys import LOCAL, Gateway, engines, free_ports, raw_get, service
from support.gateway_module import (
    Model,
    Module,
    counters,
    gateway_with,
    hashed,
    logged,
    running_model,
    write_keys,
)
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

CHAT = "/ml/qwen/v1/chat/completions"
CLOSED = {"authentication": "APIKey", "keys": "keys.json"}
BY_MODEL = {"services": [{"name": "ml/qwen"}, {"name": "web/qwen"}, {"name": "web/own"}]}


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    async with running_model() as running:
        yield running


@pytest.fixture
async def closed(tmp_path: Path, module_library: Path, model: Model) -> AsyncIterator[Gateway]:
    """A gateway that demands keys, and has one service, ``ml/qwen``."""
    write_keys(tmp_path, hashed("sk-1", "ml/ci"))
    (tmp_path / "models.json").write_text(json.dumps(BY_MODEL))
    front = CLOSED | {"models": "models.json"}
    async with gateway_with(tmp_path, Module(module_library, front)) as running:
        await running.apply(
            service(at(model)), Route("web/own", "/web/own/", (at(model),)), Route("web/qwen", "/web/qwen/")
        )
        yield running


def at(model: Model, name: str = "model", **options: Any) -> Backend:
    return Backend(f"ml/{name}", (("127.0.0.1", model.port),), prefix="/", **options)


async def ask(
    gateway: Gateway, path: str, body: Any, key: str = "sk-1", **headers: str
) -> tuple[int, Any, aiohttp.ClientResponse]:
    """Return the status, the content and the response to a request with a JSON body."""
    every = {"authorization": f"Bearer {key}"} | headers
    async with gateway.client.post(gateway.url(path), json=body, headers=every) as response:
        text = await response.text()
        return response.status, json.loads(text) if text.startswith("{") else text, response


async def until_status(gateway: Gateway, key: str, status: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await ask(gateway, CHAT, {}, key))[0] != status:
            await asyncio.sleep(0.01)


async def test_who_has_no_key_gets_no_answer_and_the_key_stays_at_the_gateway(
    closed: Gateway, model: Model
) -> None:
    for key, code in (("", "missing_api_key"), ("sk-2", "invalid_api_key")):
        status, said, response = await ask(closed, CHAT, {}, key)
        assert (status, said["error"]["code"]) == (401, code)
        assert response.headers["www-authenticate"] == "Bearer"
    assert model.asked == []
    assert (await ask(closed, CHAT, {}, **{"modelplane-client": "web/spoofed"}))[0] == 200
    (asked,) = model.asked
    assert asked["headers"]["modelplane-client"] == "ml/ci"
    assert "sk-1" not in json.dumps(asked)


async def test_a_change_of_keys_comes_into_force_and_no_stream_ends(closed: Gateway, model: Model) -> None:
    body = {"stream": True}
    headers = {"authorization": "Bearer sk-1", "x-wait": "1"}
    async with closed.client.post(closed.url(CHAT), json=body, headers=headers) as stream:
        assert await stream.content.readline() != b""
        write_keys(closed.directory, hashed("sk-2", "ml/ci"), hashed("sk-3", "ml/shut", blocked="Key"))
        await until_status(closed, "sk-2", 200)
        await until_status(closed, "sk-1", 401)
        assert (await ask(closed, CHAT, {}, "sk-3"))[0] == 403
        (closed.directory / "keys.json").write_text("{")
        async with asyncio.timeout(PATIENCE_S):
            while not (await counters(closed.directory)).get("modelplane_reload_failures{}"):
                await ask(closed, CHAT, {}, "sk-2")
        assert (await ask(closed, CHAT, {}, "sk-2"))[0] == 200
        model.go_on.set()
        assert (await stream.text()).endswith("data: [DONE]\n\n")


async def test_keys_of_the_control_plane_are_in_force(closed: Gateway) -> None:
    current, former, expired, blocked, foreign = (make_key() for _ in range(5))
    ago = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    specs: dict[str, dict[str, Any]] = {
        "rotated": {"hashes": [hash_of(former, None), hash_of(current, None), hash_of(expired, ago)]},
        "blocked": {"hashes": [hash_of(blocked, None)], "blocked": True},
        "foreign": {"hashes": [hash_of(foreign, None)], "services": ["web/own"]},
    }
    objects = [{"metadata": {"name": name, "namespace": "ml"}, "spec": spec} for name, spec in specs.items()]
    grant = KeyGrant(namespace="ml", requests_per_minute=1000, tokens_per_minute=100_000, streams=9)
    written = build_key_table(objects, (grant,), KeyTable()).file.encode()
    write_private(closed.directory / "keys.json", written.decode())
    await until_status(closed, current, 200)
    for key, status, code in (
        (former, 200, None),
        (expired, 401, "expired_api_key"),
        (blocked, 403, "key_blocked"),
        (foreign, 403, "service_not_allowed"),
        ("sk-1", 401, "invalid_api_key"),
    ):
        found, said, _ = await ask(closed, CHAT, {}, key)
        assert (found, said.get("error", {}).get("code")) == (status, code)


def hash_of(key: str, expires: dt.datetime | None) -> dict[str, str]:
    return encode_hash(new_hash(key, expires))


async def test_limits_are_exact_with_two_workers_for_a_key_and_for_its_namespace(closed: Gateway) -> None:
    write_keys(
        closed.directory,
        hashed("sk-a", "ml/a", requestsPerMinute=10),
        hashed("sk-b", "team/b", "team", requestsPerMinute=12),
        hashed("sk-c", "team/c", "team", requestsPerMinute=12),
        team={"requestsPerMinute": 15},
    )
    await until_status(closed, "sk-1", 401)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as client:
        closed.client = client
        for keys, passed in ((("sk-a",), 10), (("sk-b", "sk-c"), 15)):
            asking = (ask(closed, CHAT, {}, keys[number % len(keys)]) for number in range(80))
            answers = await asyncio.gather(*asking)
            assert Counter(status for status, _, _ in answers) == {200: passed, 429: 80 - passed}
    refused = next(response for status, _, response in answers if status == 429)
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["x-ratelimit-limit-requests"] in {"12", "15"}


async def test_limits_are_exact_over_two_gateways(tmp_path: Path, module_library: Path, model: Model) -> None:
    async with AsyncExitStack() as running:
        gateways = []
        for name in ("one", "other"):
            directory = tmp_path / name
            directory.mkdir()
            write_keys(directory, hashed("sk-1", "ml/ci", requestsPerMinute=10), hashed("sk-2", "ml/other"))
            (directory / "shares.json").write_text('{"gateways":2}')
            module = Module(module_library, CLOSED | {"shares": "shares.json"})
            gateway = await running.enter_async_context(gateway_with(directory, module))
            await gateway.apply(service(at(model)))
            await until_status(gateway, "sk-2", 200)
            gateways.append(gateway)
        answers = await asyncio.gather(*(ask(gateways[number % 2], CHAT, {}) for number in range(40)))
        assert Counter(status for status, _, _ in answers) == {200: 10, 429: 30}


async def test_streams_under_way_are_limited_and_given_back(closed: Gateway, model: Model) -> None:
    write_keys(closed.directory, hashed("sk-1", "ml/ci"), hashed("sk-s", "ml/s", streams=2))
    await until_status(closed, "sk-s", 200)
    waiting = [ask(closed, CHAT, {"stream": True}, "sk-s", **{"x-wait": "1"}) for _ in range(2)]
    running = [asyncio.create_task(each) for each in waiting]
    async with asyncio.timeout(PATIENCE_S):
        while len([each for each in model.asked if "x-wait" in each["headers"]]) < 2:
            await asyncio.sleep(0.01)
    status, said, _ = await ask(closed, CHAT, {}, "sk-s")
    assert (status, said["error"]["type"]) == (429, "streams")
    model.go_on.set()
    assert [each[0] for each in await asyncio.gather(*running)] == [200, 200]
    await until_status(closed, "sk-s", 200)


async def test_the_model_in_the_body_chooses_the_service(closed: Gateway, model: Model) -> None:
    for body, expected in (
        ({"model": "ml/qwen"}, 200),
        ({"model": "own"}, 200),
        ({"model": "qwen"}, 409),
        ({"model": "none"}, 404),
        ({}, 400),
    ):
        status, said, _ = await ask(closed, "/v1/embeddings", body)
        assert status == expected, said
        assert status == 200 or said["error"]["code"]
    assert {each["path"] for each in model.asked} == {"/v1/embeddings"}
    headers = {"authorization": "Bearer sk-1", "content-type": "application/json"}
    for size, expected in ((5 << 20, 200), (21 << 20, 413)):
        content = io.BytesIO(b'{"model":"ml/qwen","prompt":"' + b"x" * size + b'"}')
        async with closed.client.post(
            closed.url("/v1/embeddings"), data=content, headers=headers
        ) as response:
            assert response.status == expected
            assert expected == 413 or (await response.json())["bytes"] > size
    listed = await closed.client.get(closed.url("/v1/models"), headers={"x-api-key": "sk-1"})
    assert [each["id"] for each in (await listed.json())["data"]] == ["ml/qwen", "web/own", "web/qwen"]


async def post_with_trailers(port: int, path: str, content: bytes) -> int:
    """Send a request over HTTP/2 whose body ends with trailers, and return the status of its answer."""
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    head = {":method": "POST", ":path": path, ":authority": "gateway", ":scheme": "http", "x-api-key": "sk-1"}
    connection.send_headers(1, [*head.items(), ("content-type", "application/json")])
    for each in content:
        connection.send_data(1, bytes([each]))
    connection.send_headers(1, [("x-trailer", "1")], end_stream=True)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                writer.write(connection.data_to_send())
                for event in connection.receive_data(await reader.read(65_536)):
                    if isinstance(event, h2.events.ResponseReceived):
                        return int(dict(event.headers)[b":status"])
    finally:
        writer.close()


async def test_trailers_are_no_way_around_the_reading_of_a_body(closed: Gateway, model: Model) -> None:
    write_keys(closed.directory, hashed("sk-1", "ml/ci", services=["ml/*"]), hashed("sk-2", "ml/new"))
    await until_status(closed, "sk-2", 200)
    model.asked.clear()
    for named, expected in (("ml/qwen", 200), ("web/own", 403), ("none", 404)):
        content = json.dumps({"model": named}).encode()
        assert await post_with_trailers(closed.port, "/v1/embeddings", content) == expected
    (asked,) = model.asked
    assert json.loads(asked["body"]) == {"model": "ml/qwen"}


async def test_a_changed_listener_goes_on_with_what_keys_have_used(
    tmp_path: Path, module_library: Path, model: Model
) -> None:
    write_keys(tmp_path, hashed("sk-1", "ml/ci", requestsPerMinute=2), hashed("sk-2", "ml/other"))
    (tmp_path / "models.json").write_text(json.dumps(BY_MODEL))
    module = Module(module_library, dict(CLOSED))
    async with gateway_with(tmp_path, module) as gateway:
        await gateway.apply(service(at(model)))
        assert (await ask(gateway, CHAT, {}))[0] == 200
        module.front = CLOSED | {"models": "models.json"}
        await gateway.apply(service(at(model)))
        # A connection from before stays with the listener from before.
        request = b"GET /v1/models HTTP/1.1\r\nhost: gateway\r\nx-api-key: sk-2\r\nconnection: close\r\n\r\n"
        async with asyncio.timeout(PATIENCE_S):
            answer = b""
            while b"ml/qwen" not in answer:
                reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                writer.write(request)
                answer = await reader.read()
                writer.close()
        assert [(await ask(gateway, CHAT, {}))[0] for _ in range(2)] == [200, 429]


async def test_a_file_in_pieces_reaches_the_model_that_its_form_names(closed: Gateway, model: Model) -> None:
    form = aiohttp.FormData()
    form.add_field("file", b"\x00RIFF" * 50_000, filename="a.wav")
    form.add_field("model", "web/own")
    url = closed.url("/v1/audio/transcriptions")
    async with closed.client.post(url, data=form, headers={"x-api-key": "sk-1"}) as response:
        assert response.status == 200, await response.text()
    (asked,) = model.asked
    assert asked["headers"]["content-type"].startswith("multipart/form-data")


UPLOADS = int(os.environ.get("MODELPLANE_UPLOADS", "400"))
"""Number of split uploads; ``make soak`` takes 10,000."""


async def test_uploads_arrive_whole_however_they_are_split_and_no_memory_is_kept(closed: Gateway) -> None:
    draw = random.Random(20261123)  # noqa: S311 - the same pieces each time

    async def upload(number: int) -> None:
        """Send requests over one connection, each in pieces of any size."""
        reader, writer = await asyncio.open_connection("127.0.0.1", closed.port)
        for _ in range(number):
            content = b'{"model":"ml/qwen","x":"' + b"y" * draw.randrange(40_000) + b'"}'
            await _send(writer, content, draw)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            (length,) = re.findall(rb"content-length: (\d+)", head)
            said = json.loads(await reader.readexactly(int(length)))
            assert said["bytes"] == len(content)
        writer.close()

    used = []
    for _ in range(4):
        await asyncio.gather(*(upload(-(-UPLOADS // 32)) for _ in range(8)))
        used.append(psutil.Process(closed.pid).memory_info().rss)
    # The allocator of each worker fills up at first.
    assert used[-1] - used[1] < 32 << 20, used


async def _send(writer: asyncio.StreamWriter, content: bytes, draw: random.Random) -> None:
    """Send a request with a body of chunks, or of a known length."""
    chunked = draw.random() < 0.5
    length = "transfer-encoding: chunked" if chunked else f"content-length: {len(content)}"
    head = (
        "POST /v1/embeddings HTTP/1.1\r\nhost: gateway\r\nx-api-key: sk-1\r\ncontent-type: application/json"
    )
    writer.write(f"{head}\r\n{length}\r\n\r\n".encode())
    while content:
        size = draw.randrange(1, len(content) + 1)
        piece, content = content[:size], content[size:]
        writer.write(f"{size:x}\r\n".encode() + piece + b"\r\n" if chunked else piece)
        await writer.drain()
        await asyncio.sleep(0)
    if chunked:
        writer.write(b"0\r\n\r\n")


async def test_tokens_are_in_the_access_log_and_in_a_counter(closed: Gateway, model: Model) -> None:
    await ask(closed, CHAT, {"model": "x"})
    entry = await logged(closed.directory, lambda entry: entry["status"] == 200)
    assert entry | {"first_token_ms": 0, "request_id": ""} == {
        "key": "ml/ci",
        "namespace": "ml",
        "service": "ml/qwen",
        "model": "x",
        "stream": False,
        "error": None,
        "first_token_ms": 0,
        "prompt_tokens": 11,
        "completion_tokens": 22,
        "total_tokens": 33,
        "estimated": False,
        "status": 200,
        "request_id": "",
        "method": "POST",
        "path": CHAT,
        "sent": "/v1/chat/completions",
        "details": "via_upstream",
    }
    # The client did not ask for counts: it sees none, and they are known.
    _, text, _ = await ask(closed, CHAT, {"stream": True})
    assert ("usage" in text, text.count("data:")) == (False, 4)
    assert '"include_usage":true' in model.asked[-1]["body"]
    counted = await logged(closed.directory, lambda entry: bool(entry["stream"]))
    assert (counted["total_tokens"], counted["estimated"]) == (10, False)
    _, text, _ = await ask(closed, CHAT, {"stream": True, "stream_options": {"include_usage": True}})
    assert ("usage" in text, text.count("data:")) == (True, 5)
    name = 'modelplane_tokens{service="ml/qwen",kind="completion"}'
    async with asyncio.timeout(PATIENCE_S):
        while (await counters(closed.directory)).get(name) != 22 + 3 + 3:
            await asyncio.sleep(0.05)


async def test_what_only_gateways_may_say_is_dropped_and_what_clients_choose_is_escaped(
    tmp_path: Path, module_library: Path, model: Model
) -> None:
    spoofed = {"x-envoy-retry-on": "5xx", "x-modelplane-host": "evil", "modelplane-client": "ml/other"}
    front = {"authentication": "None"}
    async with gateway_with(tmp_path, Module(module_library, front)) as running:
        await running.apply(service(at(model)))
        status, _, _ = await ask(running, CHAT, {"model": 'a"b'}, **spoofed, **{"modelplane-hops": "1"})
        assert status == 200
        (seen,) = (asked["headers"] for asked in model.asked if asked["headers"].get("authorization"))
        assert (seen["modelplane-hops"], spoofed.keys() & seen.keys()) == ("11", set())
        status, answer, _ = await ask(running, CHAT, {}, **{"modelplane-hops": "1111"})
        assert (status, answer["error"]["code"]) == (508, "loop_detected")
        entry = await logged(tmp_path, lambda entry: entry["model"] == 'a"b')
    assert (entry["prompt_tokens"], entry["completion_tokens"], entry["estimated"]) == (11, 22, False)


async def test_a_client_that_leaves_is_in_the_access_log_by_estimate(closed: Gateway) -> None:
    headers = {"authorization": "Bearer sk-1", "x-wait": "1"}
    response = await closed.client.post(closed.url(CHAT), json={"stream": True}, headers=headers)
    await response.content.readline()
    await response.content.readline()
    await response.content.readline()
    response.close()
    entry = await logged(closed.directory, lambda entry: bool(entry["estimated"]))
    assert (entry["completion_tokens"], entry["prompt_tokens"], entry["status"]) == (2, 4, 200)


async def test_each_attempt_carries_what_its_backend_wants_and_nothing_of_another(
    tmp_path: Path, module_library: Path
) -> None:
    credentials = {"ml/provider": {"header": "authorization", "value": "Bearer provider"}}
    (tmp_path / "credentials.json").write_text(json.dumps({"credentials": credentials}))
    module = Module(
        module_library,
        {"authentication": "None"},
        {"credentials": "credentials.json"},
        {"ml/provider": {"credential": "ml/provider", "model": "gpt-5"}, "ml/own": {"model": "qwen3"}},
    )
    async with running_model() as provider, running_model() as own, gateway_with(tmp_path, module) as gateway:
        provider.status = 503
        backends = (at(provider, "provider", host="provider.example"), at(own, "own"))
        await gateway.apply(service(*backends))
        body = {"model": "ml/qwen", "x": 1.5}
        async with asyncio.timeout(PATIENCE_S):
            # Which backend comes first is drawn.
            while not (provider.asked and own.asked):
                headers = {"authorization": "Bearer mine"}
                assert (await ask(gateway, CHAT, body, "mine", **headers))[0] == 200
        for asked in provider.asked:
            assert (asked["headers"]["authorization"], asked["headers"]["host"]) == (
                "Bearer provider",
                "provider.example",
            )
            assert json.loads(asked["body"]) == body | {"model": "gpt-5"}
        for asked in own.asked:
            assert asked["headers"]["authorization"] == "Bearer mine"
            assert asked["headers"]["host"] == f"127.0.0.1:{gateway.port}"
            assert json.loads(asked["body"]) == body | {"model": "qwen3"}
            assert asked["path"] == "/v1/chat/completions"
        await gateway.apply(service(backends[1]))
        content = io.BytesIO(b'{"x":"' + b"x" * (5 << 20) + b'","model":"ml/qwen"}')
        headers = {"content-type": "application/json"}
        async with gateway.client.post(gateway.url("/ml/qwen/x"), data=content, headers=headers) as response:
            assert (await response.json())["model"] == "qwen3"


@pytest.fixture
async def rewriting(tmp_path: Path, module_library: Path) -> AsyncIterator[Gateway]:
    async with gateway_with(tmp_path, Module(module_library, {"authentication": "None"})) as running:
        yield running


LONG = "x" * 9000


async def test_the_path_that_a_backend_sees_is_the_one_that_lua_made(rewriting: Gateway) -> None:
    cases = (
        ("/ml/r-1/", "", "/v1/chat?a=1&b=%20", "/ml/r-1/v1/chat?a=1&b=%20"),
        ("/", "", "", "/"),
        ("/", "", "?a=1", "/?a=1"),
        ("/", "", "//v1", "//v1"),
        ("", "", "/v1/models", "/ml/qwen/v1/models"),
        ("/v1/", "v1", "/v1/models", "/v1/models"),
        ("/v1/", "v1", "/v1?a=1", "/v1/?a=1"),
        ("/v1/", "v1", "/models", "/v1/models"),
        ("/v1/", "v1", "/v1beta/models", "/v1/v1beta/models"),
        ("/p/", "", f"/{LONG}?{LONG}", f"/p/{LONG}?{LONG}"),
    )
    async with engines("a") as (engine,):
        for prefix, overlap, asked, seen in cases:
            route = service(engine.backend(prefix=prefix, overlap=overlap))
            await rewriting.apply(route, workload=(route,))
            # The gateway of a cluster has no filter of requests, which would hand the path over.
            for port in (rewriting.port, rewriting.workload_port):
                assert json.loads(await raw_get(port, f"/ml/qwen{asked}"))["path"] == seen


def validated(directory: Path, module: Module) -> tuple[int, str]:
    """Return the status and the words of Envoy's check of a configuration."""
    directory.mkdir(exist_ok=True)
    listener = Listener("front-door", "127.0.0.1", next(free_ports()), destinations=LOCAL)
    content = module.change(render_files(Table((listener,))))
    (resource,) = json.loads(content["lds.json"])["resources"]
    manager = resource["filter_chains"][0]["filters"][0]["typed_config"]
    del manager["rds"], resource["@type"]
    manager["route_config"] = {"name": "all"}
    # The allowed destinations are files of their own.
    manager["http_filters"][-1]["typed_config"]["upstream_http_filters"][:-2] = []
    (directory / "static.json").write_text(json.dumps({"static_resources": {"listeners": [resource]}}))
    envoy, *_ = envoy_bootstrap.build_argv(directory)
    done = subprocess.run(
        [envoy, "--mode", "validate", "--config-path", "static.json", "--log-level", "info"],
        cwd=directory,
        env={"ENVOY_DYNAMIC_MODULES_SEARCH_PATH": str(module.library.parent)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_envoy_refuses_a_bad_configuration_beforehand(tmp_path: Path, module_library: Path) -> None:
    write_keys(tmp_path, hashed("sk-1", "ml/ci"))
    status, said = validated(tmp_path, Module(module_library, CLOSED))
    assert status == 0, said
    assert "Dynamic module ABI version v0.2.0 matched" in said
    for front, cause in (
        ({}, "missing field `authentication`"),
        ({"authentication": "APIKey", "keys": "absent.json"}, "cannot read absent.json"),
        ({"authentication": "None", "other": 1}, "unknown field `other`"),
    ):
        status, said = validated(tmp_path, Module(module_library, front))
        assert (status, cause in said) == (1, True), said
    (tmp_path / "keys.json").write_text("{")
    status, said = validated(tmp_path, Module(module_library, CLOSED))
    assert (status, "keys.json is damaged" in said) == (1, True), said


def test_the_functions_of_the_abi_are_those_of_this_envoy(module_library: Path) -> None:
    declared = (gateway_module.SOURCES / "src" / "abi.rs").read_text()
    names = set(re.findall(r"\benvoy_dynamic_module_(?:callback|on)_\w+", declared))
    assert len(names) > 40
    with Path(envoy_bootstrap.build_argv(Path())[0]).open("rb") as file:
        envoy = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        lacking = {name for name in names if envoy.find(name.encode()) < 0}
    assert lacking == set()
    assert all(name.encode() in module_library.read_bytes() for name in names)
