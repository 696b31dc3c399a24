"""The stand-in of the routing sidecar: how it divides a request."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from modelplane.kubelet.engines import routing_sidecar
from modelplane.kubelet.engines.routing_sidecar import (
    build_application,
    build_decode_request,
    build_prefill_request,
    is_pod,
)

BODY = {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 9}
ASKED_OF_PREFILL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        pytest.param(BODY, {"model": "m", "stream": False, "max_tokens": 1}, id="one token, not streamed"),
        pytest.param(
            {"max_completion_tokens": 5},
            {"stream": False, "max_tokens": 1, "max_completion_tokens": 1},
            id="by the newer name too",
        ),
    ],
)
def test_a_prefill_engine_computes_one_token(body: dict[str, Any], asked: dict[str, Any]) -> None:
    assert build_prefill_request(body) == {**asked, "kv_transfer_params": ASKED_OF_PREFILL}


@pytest.mark.parametrize(
    ("answered", "added"),
    [
        pytest.param(
            {"kv_transfer_params": {"remote_host": "h"}},
            {"kv_transfer_params": {"remote_host": "h"}},
            id="a transfer",
        ),
        pytest.param({"choices": []}, {}, id="an engine without transfer"),
        pytest.param({"kv_transfer_params": None}, {}, id="no transfer"),
    ],
)
def test_the_decode_engine_gets_the_parameters_of_the_transfer(
    answered: dict[str, Any], added: dict[str, Any]
) -> None:
    assert build_decode_request(BODY, answered) == BODY | added


@pytest.mark.parametrize(
    ("host_port", "is_one"),
    [
        ("127.77.0.3:8000", True),
        ("127.0.0.1:8000", False),
        ("198.18.0.3:8000", False),
        ("127.77.0.3", False),
        ("127.77.0.3:x", False),
        ("[::1]:80", False),
        ("example.com:80", False),
        ("127.77.0.3@evil:80", False),
    ],
)
def test_it_connects_only_to_pods_of_this_machine(host_port: str, is_one: bool) -> None:
    assert is_pod(host_port) is is_one


@asynccontextmanager
async def engine(
    name: str, log: list[tuple[str, dict[str, Any]]], **answer: Any
) -> AsyncIterator[TestServer]:
    async def handle(request: web.Request) -> web.Response:
        log.append((name, await request.json() if request.can_read_body else {}))
        return web.json_response({"by": name, **answer}, status=answer.get("status", 200))

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    server = TestServer(app)
    async with server:
        yield server


async def ask(
    monkeypatch: pytest.MonkeyPatch, path: str = "/v1/chat/completions", **prefill: Any
) -> tuple[Any, list[tuple[str, dict[str, Any]]]]:
    """Return the answer through a sidecar, and what the engines were asked."""
    monkeypatch.setattr(routing_sidecar, "is_pod", lambda _: True)
    log: list[tuple[str, dict[str, Any]]] = []
    async with (
        engine("prefill", log, **prefill) as first,
        engine("decode", log) as second,
        aiohttp.ClientSession() as session,
        TestClient(TestServer(build_application(str(second.make_url("")).rstrip("/"), session))) as client,
    ):
        headers = {"x-prefiller-host-port": f"{first.host}:{first.port}", "content-type": "application/json"}
        async with client.post(path, data=json.dumps(BODY), headers=headers) as response:
            return await response.json(), log


async def test_prefill_comes_before_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, log = await ask(monkeypatch, kv_transfer_params={"remote_host": "h"})
    assert answer["by"] == "decode"
    assert log == [
        ("prefill", build_prefill_request(BODY)),
        ("decode", {**BODY, "kv_transfer_params": {"remote_host": "h"}}),
    ]


async def test_a_prefill_engine_that_fails_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, log = await ask(monkeypatch, status=500)
    assert answer["by"] == "decode"
    assert log[-1] == ("decode", BODY)


async def test_another_path_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    _, log = await ask(monkeypatch, path="/v1/embeddings")
    assert [name for name, _ in log] == ["decode"]


async def test_a_redirect_of_a_prefill_engine_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    # A client can name any pod of the machine in the header, and that pod any address of the network.
    monkeypatch.setattr(routing_sidecar, "is_pod", lambda _: True)
    log: list[tuple[str, dict[str, Any]]] = []

    async def redirect(_: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": str(elsewhere.make_url("/admin"))})

    app = web.Application()
    app.router.add_post("/{path:.*}", redirect)
    async with (
        engine("elsewhere", log, kv_transfer_params={"remote_host": "h"}) as elsewhere,
        engine("decode", log) as second,
        TestServer(app) as first,
        aiohttp.ClientSession() as session,
        TestClient(TestServer(build_application(str(second.make_url("")).rstrip("/"), session))) as client,
    ):
        headers = {"x-prefiller-host-port": f"{first.host}:{first.port}", "content-type": "application/json"}
        async with client.post("/v1/completions", data=json.dumps(BODY), headers=headers) as response:
            assert (await response.json())["by"] == "decode"
    assert log == [("decode", BODY)]
