"""One URL for all models on the real Envoy, with the clients of OpenAI and Anthropic."""

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from modelplane.api.inference_gateway import ModelAlias
from modelplane.gateway.route_table import Route
from support.envoys import Gateway
from support.one_url import CREATED, front, gateway_of, keys
from support.openai_server import SAID, WORDS, OpenAIServer, running_server

pytestmark = pytest.mark.kubernetes

CHAT: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
SERVICES = {"ml/qwen": ["mine"], "ml/llama": [], "web/qwen": ["llama", "theirs"], "web/own": []}
KEYS = keys({"ml": ("ml/*", "web/*"), "web": ("web/*", "ml/llama"), "settled": ("settled/*",)})
ALIASES = (
    ModelAlias(name="gpt-4o", service="ml/llama", namespaces=("web",)),
    ModelAlias(name="everyone", service="web/own", namespaces=("*",)),
)


@pytest.fixture
async def engine() -> AsyncIterator[OpenAIServer]:
    async with running_server() as running:
        yield running


@pytest.fixture
async def closed(tmp_path: Path, module_library: Path, engine: OpenAIServer) -> AsyncIterator[Gateway]:
    """A gateway that asks for keys."""
    settings = front(SERVICES, ALIASES, KEYS)
    async with gateway_of(tmp_path, module_library, settings, *map(engine.route, SERVICES)) as running:
        yield running


@pytest.fixture
async def open_(tmp_path: Path, module_library: Path, engine: OpenAIServer) -> AsyncIterator[Gateway]:
    """A gateway that doesn't require keys."""
    settings = front(SERVICES, ALIASES, None)
    async with gateway_of(tmp_path, module_library, settings, *map(engine.route, SERVICES)) as running:
        yield running


def client(gateway: Gateway, key: str = "sk-ml", path: str = "/v1") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=gateway.url(path), api_key=key, max_retries=0, timeout=60)


async def test_every_request_of_the_openai_client_reaches_the_model_that_it_names(
    closed: Gateway, engine: OpenAIServer
) -> None:
    async with client(closed) as asking:
        answer = await asking.chat.completions.create(model="ml/qwen", messages=CHAT)
        assert (answer.model, answer.choices[0].message.content) == ("ml/qwen", SAID)
        stream = await asking.chat.completions.create(model="ml/qwen", messages=CHAT, stream=True)
        assert [each.choices[0].delta.content async for each in stream] == list(WORDS)
        completion = await asking.completions.create(model="ml/qwen", prompt="x")
        assert completion.choices[0].text == SAID
        response = await asking.responses.create(model="ml/qwen", input="x")
        assert response.output_text == SAID
        embeddings = await asking.embeddings.create(model="ml/qwen", input="x", encoding_format="float")
        assert embeddings.data[0].embedding == [0.5, 0.25]
        query = {"model": "ml/qwen", "query": "x", "documents": ["a", "b"]}
        reranked = await asking.post("/rerank", cast_to=object, body=query)
        assert reranked == {"model": "ml/qwen", "results": [{"index": 1, "relevance_score": 0.5}]}
        sound = b"\x00RIFF\r\n--" * 100_000
        heard = await asking.audio.transcriptions.create(model="ml/qwen", file=("a.wav", sound))
        assert heard.text == SAID
        drawn = await asking.images.generate(model="ml/qwen", prompt="x")
        assert (drawn.data or [])[0].b64_json == "AAAA"
        edited = await asking.images.edit(model="ml/qwen", prompt="x", image=io.BytesIO(b"\x89PNG" * 1000))
        assert (edited.data or [])[0].b64_json == "AAAA"
    assert [(each.path.removeprefix("/v1/"), each.model) for each in engine.asked] == [
        ("chat/completions", "ml/qwen"),
        ("chat/completions", "ml/qwen"),
        ("completions", "ml/qwen"),
        ("responses", "ml/qwen"),
        ("embeddings", "ml/qwen"),
        ("rerank", "ml/qwen"),
        ("audio/transcriptions", "ml/qwen"),
        ("images/generations", "ml/qwen"),
        ("images/edits", "ml/qwen"),
    ]
    assert engine.asked[6].bytes == len(sound)
    assert {each.headers["modelplane-client"] for each in engine.asked} == {"ml/ci"}
    assert not any("authorization" in each.headers for each in engine.asked)


async def test_the_anthropic_client_reaches_an_engine_that_has_its_api(
    closed: Gateway, engine: OpenAIServer
) -> None:
    import anthropic  # noqa: PLC0415 - it takes two seconds, which each worker would spend on this test

    async with anthropic.AsyncAnthropic(base_url=closed.url(""), api_key="sk-ml", max_retries=0) as asking:
        answer = await asking.messages.create(model="mine", max_tokens=9, messages=CHAT)
        assert answer.content[0].to_dict() == {"type": "text", "text": SAID}
        with pytest.raises(anthropic.NotFoundError, match="there is no model"):
            await asking.messages.create(model="none", max_tokens=9, messages=CHAT)
    (asked,) = engine.asked
    assert (asked.path, asked.model, "x-api-key" in asked.headers) == ("/v1/messages", "mine", False)


async def test_the_list_has_what_the_key_may_use(closed: Gateway) -> None:
    for key, listed in (
        ("sk-ml", ["ml/llama", "ml/qwen", "web/own", "web/qwen", "everyone", "mine"]),
        ("sk-web", ["ml/llama", "web/own", "web/qwen", "everyone", "gpt-4o", "llama", "theirs"]),
    ):
        async with client(closed, key) as asking:
            models = (await asking.models.list()).data
            assert ([each.id for each in models], {each.created for each in models}) == (listed, {CREATED})
            for name in listed:
                assert (await asking.models.retrieve(name)).id == name
    async with client(closed, "sk-web") as asking:
        for name in ("ml/none", "ml/qwen", "mine"):
            with pytest.raises(openai.NotFoundError, match="there is no model"):
                await asking.models.retrieve(name)


async def test_without_keys_every_service_and_the_names_for_everybody_count(
    open_: Gateway, engine: OpenAIServer
) -> None:
    async with client(open_, "unused") as asking:
        listed = [each.id for each in (await asking.models.list()).data]
        assert listed == ["ml/llama", "ml/qwen", "web/own", "web/qwen", "everyone"]
        assert (await asking.models.retrieve("web/own")).owned_by == "web"
        for name in ("web/own", "own", "everyone"):
            await asking.embeddings.create(model=name, input="x")
        for name in ("mine", "theirs", "gpt-4o"):
            with pytest.raises(openai.NotFoundError):
                await asking.embeddings.create(model=name, input="x")
    assert [each.service for each in engine.asked] == ["web/own"] * 3


REFUSALS: tuple[tuple[str, str, type[openai.APIStatusError], str, str], ...] = (
    ("sk-ml", "none", openai.NotFoundError, "model_not_found", "GET /v1/models lists them"),
    ("sk-ml", "ml/none", openai.NotFoundError, "model_not_found", '"ml/none"'),
    ("sk-ml", "qwen", openai.ConflictError, "model_ambiguous", '"ml/qwen", "web/qwen"'),
    ("sk-web", "llama", openai.ConflictError, "model_ambiguous", '"ml/llama", "web/qwen"'),
    ("sk-web", "ml/qwen", openai.PermissionDeniedError, "service_not_allowed", '"ml/qwen"'),
    ("sk-web", "mine", openai.NotFoundError, "model_not_found", '"mine"'),
    ("sk-ml", "gpt-4o", openai.NotFoundError, "model_not_found", '"gpt-4o"'),
    ("sk-ml", "q" * 513, openai.BadRequestError, "invalid_body", "longer than 512 bytes"),
    ("sk-ml", "ml/qwén\0🦀", openai.NotFoundError, "model_not_found", "🦀"),
    ("sk-no", "ml/qwen", openai.AuthenticationError, "invalid_api_key", "unknown"),
)


async def test_a_refusal_is_the_error_that_the_client_knows(closed: Gateway, engine: OpenAIServer) -> None:
    for key, model, error, code, said in REFUSALS:
        async with client(closed, key) as asking:
            with pytest.raises(error) as raised:
                await asking.chat.completions.create(model=model, messages=CHAT)
        assert (raised.value.code, said in str(raised.value)) == (code, True), raised.value
    async with client(closed) as asking:
        with pytest.raises(openai.NotFoundError) as unknown:
            await asking.get("/files", cast_to=object)
        assert unknown.value.code == "route_not_found"
        with pytest.raises(openai.APIStatusError) as wrong:
            await asking.put("/chat/completions", cast_to=object, body={"model": "ml/qwen"})
        assert (wrong.value.status_code, wrong.value.code) == (405, "method_not_allowed")
        assert wrong.value.response.headers["allow"] == "POST"
    assert engine.asked == []
    async with client(closed) as asking:
        # The engine's own errors pass.
        with pytest.raises(openai.NotFoundError, match="no such path"):
            await asking.post("/unknown", cast_to=object, body={"model": "ml/qwen"})


async def test_the_names_granted_to_a_namespace_lead_to_their_service(
    closed: Gateway, engine: OpenAIServer
) -> None:
    async with client(closed, "sk-web") as asking:
        for name in ("gpt-4o", "theirs", "everyone"):
            await asking.embeddings.create(model=name, input="x")
    assert [each.service for each in engine.asked] == ["ml/llama", "web/qwen", "web/own"]


async def test_an_endpoint_gets_the_model_by_its_own_name(closed: Gateway, engine: OpenAIServer) -> None:
    (backend,) = engine.route("web/own").backends
    await closed.apply(Route("web/own", "/web/own/", (replace(backend, model="Qwen/Qwen3-8B"),)))
    async with client(closed) as asking:
        for name in ("web/own", "everyone"):
            await asking.embeddings.create(model=name, input="x")
        await asking.audio.transcriptions.create(model="own", file=("a.wav", b"RIFF"))
    assert [each.model for each in engine.asked] == ["Qwen/Qwen3-8B"] * 3


async def test_an_engine_gets_its_own_name_for_the_model_where_the_service_was_chosen_by_name(
    closed: Gateway, engine: OpenAIServer
) -> None:
    (backend,) = engine.route("web/own").backends
    await closed.apply(Route("web/own", "/web/own/", (replace(backend, served="Qwen/Qwen3-8B"),)))
    async with client(closed) as asking:
        await asking.embeddings.create(model="web/own", input="x")
    async with client(closed, path="/web/own/v1") as asking:
        await asking.embeddings.create(model="an-adapter", input="x")
    assert [each.model for each in engine.asked] == ["Qwen/Qwen3-8B", "an-adapter"]


async def test_a_gateway_that_is_closed_leads_connections_from_before_nowhere(
    open_: Gateway, engine: OpenAIServer
) -> None:
    request = b"GET /ml/qwen/v1/models HTTP/1.1\r\nhost: g\r\n\r\n"
    held = [await asyncio.open_connection("127.0.0.1", open_.port) for _ in range(2)]
    open_.front = front(SERVICES, ALIASES, KEYS)
    open_.own_headers = {"authorization": "Bearer sk-settled"}
    await open_.apply(*map(engine.route, SERVICES))
    for reader, writer in held:
        writer.write(request)
        answer = await reader.read()  # to the end of the connection
        writer.close()
        assert answer.startswith(b"HTTP/1.1 404"), answer
    assert engine.asked == []
    assert await open_.status("/ml/qwen/v1/models") == 401
