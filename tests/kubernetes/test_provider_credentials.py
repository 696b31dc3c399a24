"""Credentials and names of models for single backends, in a real Envoy with the module, and without it."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from modelplane.gateway.module_files.route_files import CredentialFile, SecretHeader
from modelplane.gateway.route_table import Backend, CredentialReference, Front
from modelplane.proxy import admin
from support.envoys import Gateway, running_envoy, service
from support.gateway_module import Model, running_model
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

CHAT = "/ml/qwen/v1/chat/completions"
ONE = CredentialReference("ml", "one", "apiKey", "authorization", "one.example.com")
OTHER = CredentialReference("ml", "other", "apiKey", "x-api-key", "other.example.com")
HEADERS = {"authorization": "Bearer mine", "x-api-key": "mine"}


def known(**values: str) -> Front:
    """Return a front with the values of credentials, by the name of their Secret."""
    references = {each.secret: each for each in (ONE, OTHER)}
    headers = {
        references[name].name: SecretHeader(references[name].header, each) for name, each in values.items()
    }
    return Front(credentials=CredentialFile(headers))


def at(server: Model, name: str, **options: Any) -> Backend:
    return Backend(f"ml/{name}", (("127.0.0.1", server.port),), prefix="/", **options)


@pytest.fixture
async def gateway(tmp_path: Path, module_library: Path) -> AsyncIterator[Gateway]:
    """A gateway with the module, as the control plane configures it."""
    front = known(one="Bearer key-one", other="key-other")
    async with running_envoy(tmp_path, front=front, library=module_library) as running:
        yield running


async def ask(gateway: Gateway, **body: Any) -> tuple[int, dict[str, Any]]:
    body = {"model": "mine"} | body
    async with (
        asyncio.timeout(PATIENCE_S),
        gateway.client.post(gateway.url(CHAT), json=body, headers=HEADERS) as response,
    ):
        return response.status, dict(await response.json())


def seen(model: Model) -> set[tuple[str, str, str]]:
    """Return the headers and the name of the model that a model was asked with."""
    return {
        (
            asked["headers"].get("authorization", ""),
            asked["headers"].get("x-api-key", ""),
            json.loads(asked["body"])["model"],
        )
        for asked in model.asked
    }


async def test_each_attempt_carries_what_its_own_backend_wants(gateway: Gateway) -> None:
    async with running_model() as one, running_model() as other, running_model() as own:
        backends = (
            at(one, "one", credential=ONE, model="gpt-5", host="one.example.com"),
            at(other, "other", credential=OTHER, model="claude", host="other.example.com"),
            at(own, "own"),
        )
        tiers = [replace(each, priority=number) for number, each in enumerate(backends)]
        await gateway.apply(service(*tiers))
        for each in (one, other, own):
            each.status = 503
        for number in range(1, 21):
            assert (await ask(gateway))[0] == 503
            assert len(one.asked) == len(other.asked) == len(own.asked) == number
        await gateway.apply(service(*backends))
        for number in range(1, 21):
            assert (await ask(gateway))[0] == 503
            assert len(one.asked) + len(other.asked) + len(own.asked) == 60 + 2 * number
        for each in (one, other, own):
            each.status = 200
        answers = [await ask(gateway) for _ in range(60)]
        assert {(status, answer["model"]) for status, answer in answers} == {
            (200, "gpt-5"),
            (200, "claude"),
            (200, "mine"),
        }
        assert (seen(one), seen(other), seen(own)) == (
            {("Bearer key-one", "", "gpt-5")},
            {("", "key-other", "claude")},
            {("Bearer mine", "mine", "mine")},
        )
    told = (gateway.directory / "log").read_text() + await configuration(gateway.directory)
    assert "ml/one/apiKey" in told
    assert "key-one" not in told
    assert "key-other" not in told


async def configuration(directory: Path) -> str:
    connector = aiohttp.UnixConnector(str(admin.find_admin_socket(directory)))
    async with (
        aiohttp.ClientSession(connector=connector) as client,
        client.get("http://envoy/config_dump") as response,
    ):
        return await response.text()


async def test_a_rotated_credential_is_in_force_under_load_and_a_removed_one_ends(gateway: Gateway) -> None:
    async with running_model() as one:
        route = service(at(one, "one", credential=ONE))
        await gateway.apply(route)
        headers = HEADERS | {"x-wait": "1"}
        body = {"model": "mine", "stream": True}
        async with gateway.client.post(gateway.url(CHAT), json=body, headers=headers) as stream:
            await stream.content.readline()
            gateway.front = known(one="Bearer key-two")
            await gateway.apply(route)
            async with asyncio.timeout(PATIENCE_S):
                while one.asked[-1]["headers"]["authorization"] != "Bearer key-two":
                    assert (await ask(gateway))[0] == 200
            gateway.front = known()
            await gateway.apply(route)
            async with asyncio.timeout(PATIENCE_S):
                while (answer := await ask(gateway))[0] == 200:
                    pass
            asked = len(one.asked)
            assert (answer[0], answer[1]["error"]["code"]) == (503, "credential_missing")
            assert (await ask(gateway))[0] == 503
            one.go_on.set()
            assert (await stream.text()).endswith("data: [DONE]\n\n")
        assert len(one.asked) == asked
        assert {sent for sent, _, _ in seen(one)} == {"Bearer key-one", "Bearer key-two"}


@pytest.mark.parametrize(
    "wants", [{"credential": ONE}, {"model": "gpt-5"}], ids=["a credential", "the name of a model"]
)
async def test_without_the_module_a_backend_that_needs_it_is_not_asked(
    tmp_path: Path, wants: dict[str, Any]
) -> None:
    async with (
        running_envoy(tmp_path, front=known()) as gateway,
        running_model() as one,
    ):
        await gateway.apply(service(at(one, "one", **wants)))
        assert (await ask(gateway))[0] == 503
        assert one.asked == []
