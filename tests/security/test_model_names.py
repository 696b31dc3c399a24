"""Names of models: no name that a tenant chooses takes the prompts of another tenant."""

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from modelplane.api.inference_gateway import ModelAlias
from support.envoys import Gateway
from support.one_url import front, gateway_of, keys
from support.openai_server import OpenAIServer, running_server

pytestmark = pytest.mark.kubernetes

SERVICES = {
    "ml/qwen": ["mine"],
    "shared/llama": [],
    # What a tenant may write: the names of others, of their services, and of the platform.
    "evil/own": ["qwen", "llama", "mine", "gpt-4o", "fast", "ml", "v1"],
    "evil/fast": ["everything"],
}
GRANTED = (
    ModelAlias(name="gpt-4o", service="shared/llama", namespaces=("*",)),
    ModelAlias(name="fast", service="shared/llama", namespaces=("ml",)),
)
# The victim's key may use the attacker's services as well: only then could a name lead there.
KEYS = keys({"ml": ("ml/*", "shared/*", "evil/*"), "evil": ("evil/*", "shared/*"), "settled": ("settled/*",)})


@pytest.fixture
async def engine() -> AsyncIterator[OpenAIServer]:
    async with running_server() as running:
        yield running


@pytest.fixture
async def closed(tmp_path: Path, module_library: Path, engine: OpenAIServer) -> AsyncIterator[Gateway]:
    settings = front(SERVICES, GRANTED, KEYS)
    async with gateway_of(tmp_path, module_library, settings, *map(engine.route, SERVICES)) as running:
        yield running


async def post(
    gateway: Gateway, body: bytes, path: str = "/v1/embeddings", key: str = "sk-ml", **headers: str
) -> tuple[int, str]:
    """Return the status and the code of the error of a request that no client would send."""
    every = {"content_type": "application/json", **headers, "content_length": str(len(body))}
    head = [f"POST {path} HTTP/1.1", "host: gateway", f"authorization: Bearer {key}"]
    head += [f"{name.replace('_', '-')}: {value}" for name, value in every.items()]
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write("\r\n".join([*head, "", ""]).encode() + body)
    async with asyncio.timeout(60):
        answer = await reader.readuntil(b"\r\n\r\n")
        (length,) = re.findall(rb"content-length: (\d+)", answer)
        content = await reader.readexactly(int(length))
    writer.close()
    return int(answer.split()[1]), json.loads(content).get("error", {}).get("code", "")


def of(model: str) -> bytes:
    return json.dumps({"model": model, "input": "secret"}).encode()


async def test_a_name_of_another_namespace_takes_no_prompt(closed: Gateway, engine: OpenAIServer) -> None:
    for model, service in (
        ("qwen", "ml/qwen"),
        ("llama", "shared/llama"),
        ("mine", "ml/qwen"),
        ("gpt-4o", "shared/llama"),
    ):
        assert await post(closed, of(model)) == (200, "")
        assert engine.asked.pop().service == service
    for model, refused in (
        # A service of this name, which the key may use, beside the platform's alias.
        ("fast", (409, "model_ambiguous")),
        ("ml", (404, "model_not_found")),
        ("v1", (404, "model_not_found")),
        ("everything", (404, "model_not_found")),
    ):
        assert await post(closed, of(model)) == refused
    assert engine.asked == []
    # In its own namespace, a name of its own counts, and does not silently replace the platform's.
    assert await post(closed, of("everything"), key="sk-evil") == (200, "")
    assert engine.asked.pop().service == "evil/fast"
    assert await post(closed, of("gpt-4o"), key="sk-evil") == (409, "model_ambiguous")
    assert await post(closed, of("mine"), key="sk-evil") == (200, "")
    assert engine.asked.pop().service == "evil/own"
    assert await post(closed, of("ml/qwen"), key="sk-evil") == (403, "service_not_allowed")


async def test_without_keys_no_name_that_a_tenant_gives_counts(
    tmp_path: Path, module_library: Path, engine: OpenAIServer
) -> None:
    settings = front(SERVICES, GRANTED, None)
    routes = map(engine.route, SERVICES)
    async with gateway_of(tmp_path, module_library, settings, *routes) as gateway:
        for model, service in (
            ("qwen", "ml/qwen"),
            ("llama", "shared/llama"),
            ("gpt-4o", "shared/llama"),
        ):
            assert await post(gateway, of(model)) == (200, "")
            assert engine.asked.pop().service == service
        for model in ("mine", "everything", "ml"):
            assert await post(gateway, of(model)) == (404, "model_not_found")
    assert engine.asked == []


INVALID, UNREADABLE = (400, "invalid_body"), (415, "unsupported_media_type")
REFUSED = {INVALID, (403, "service_not_allowed"), (404, "model_not_found")}
INEXACT = (
    "ml/../evil/own",  # a dot segment
    "evil/own/../../ml/qwen",  # a path
    "/ml/qwen",  # a slash in front
    "ml/qwen/",  # a slash at the end
    "ml//qwen",  # an empty segment
    "ml/qwen?x=",  # a query
    "ml/qwen#",  # a fragment
    "ml%2Fqwen",  # an encoded slash
    "ml\\qwen",  # a backslash
    "ml/qwen\r\nx-a: b",  # a line break
    "ml/qwen\0",  # a zero byte
    "ML/Qwen",  # capitals
    " ml/qwen",  # a space
    "ml/qw\u0435n",  # a letter of another script
    "ml/*",  # a pattern
    "*",  # every service
    "",  # nothing
    "x" * 513,  # a long name
)


async def test_a_name_is_exact(closed: Gateway, engine: OpenAIServer) -> None:
    for model in INEXACT:
        status, code = await post(closed, of(model))
        assert (status, code) in REFUSED, model
    assert engine.asked == []


async def test_a_body_with_two_readings_is_refused(closed: Gateway, engine: OpenAIServer) -> None:
    form = b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\n%s\r\n'
    once = form % b"ml/qwen" + b"--x--\r\n"
    twice = form % b"ml/qwen" + form % b"evil/own" + b"--x--\r\n"
    as_form = {"content_type": "multipart/form-data; boundary=x"}
    for body, headers, refused in (
        (b'{"model":"ml/qwen","model":"evil/own"}', {}, INVALID),
        (b'{"model":"ml/qwen","m\\u006fdel":"evil/own"}', {}, INVALID),
        (b'{"model":"ml/qwen"}{"model":"evil/own"}', {}, INVALID),
        (b'{"model":["ml/qwen","evil/own"]}', {}, INVALID),
        (b'{"input":"x"}', {}, INVALID),
        (twice, as_form, INVALID),
        (once, {"content_type": "multipart/form-data"}, UNREADABLE),
        (of("ml/qwen"), {"content_type": "text/plain"}, UNREADABLE),
        (gzip.compress(of("ml/qwen")), {"content_encoding": "gzip"}, UNREADABLE),
    ):
        assert await post(closed, body, **headers) == refused
    assert engine.asked == []


async def test_a_path_below_the_url_leads_nowhere_else(closed: Gateway, engine: OpenAIServer) -> None:
    for path in (
        "/v1/../evil/own/v1/embeddings",
        "/v1/..;/evil/own",
        "/v1/%2e%2e/%2E%2E/evil/own",
        "/v1/a%2Fb",
    ):
        assert await post(closed, of("ml/qwen"), path) == (400, "ambiguous_path")
    assert engine.asked == []
    for path in ("/v1/evil/own/v1/embeddings", "/v1//evil/own", "/v1/embeddings?model=evil/own"):
        await post(closed, of("ml/qwen"), path)
    assert [each.service for each in engine.asked] == ["ml/qwen"] * 3
