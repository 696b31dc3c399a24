"""The hash of another team's key: who copies it gets neither the key nor the prompts of its clients."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.inference_gateway import KeyGrant
from modelplane.api.meta import API_VERSION
from modelplane.api.model_key import ModelKey
from modelplane.controllers.fleet_resources import INFERENCE_GATEWAYS, resource_of_kind
from modelplane.gateway.envoy.module_filters import KEYS
from modelplane.gateway.module_files.keys import KeyFile, KeyTable, build_key_table
from modelplane.proxy.envoy_directory import write
from modelplane.proxy.proxies import GatewayDirectory
from support.attacked import Attacked
from support.controllers import running_controllers
from support.one_url import front, gateway_of
from support.openai_server import running_server
from support.patience import eventually

pytestmark = pytest.mark.kubernetes

KEY = "mpk_of-the-victim"
HASH, OTHER = (hashlib.sha256(key.encode()).hexdigest() for key in (KEY, "mpk_of-the-attacker"))
TEAM, EVIL = "team", "evil"
MODEL_KEYS = resource_of_kind(ModelKey)


def key(namespace: str, name: str, *hashes: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelKey",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hashes": [{"sha256": each} for each in hashes], **spec},
    }


class Keys:
    """A fleet whose gateway asks for keys."""

    def __init__(self, fleet: Attacked, directory: Path) -> None:
        self.fleet = fleet
        self._directory = directory

    @asynccontextmanager
    async def controllers(self) -> AsyncIterator[None]:
        proxy = GatewayDirectory(self._directory, "127.0.0.1:8080", write)
        async with running_controllers(self.fleet.control_plane, proxy):
            yield

    def holder(self) -> str:
        """Return the ModelKey that the gateway's file says has the victim's hash."""
        path = self._directory / KEYS
        file = KeyFile.parse(path.read_bytes()) if path.exists() else KeyFile()
        return next((each.id for each in file.keys if each.sha256 == HASH), "")

    def knows(self, id_: str) -> bool:
        """Return True if the gateway has a key of a ModelKey."""
        path = self._directory / KEYS
        file = KeyFile.parse(path.read_bytes()) if path.exists() else KeyFile()
        return any(each.id == id_ for each in file.keys)

    async def apply(self, *manifests: dict[str, Any]) -> None:
        for each in manifests:
            await self.fleet.client.apply(each)

    async def delete(self, namespace: str, name: str) -> None:
        await self.fleet.client.delete(MODEL_KEYS, name, namespace)

    async def until_held_by(self, holder: str) -> None:
        async def is_held() -> bool:
            return self.holder() == holder

        await eventually(is_held)

    async def until_seen(self, namespace: str, name: str, *, refused: bool) -> None:
        """Wait until the status of a ModelKey records the victim's hash, and whether it is refused."""

        async def is_recorded() -> bool:
            item = await self.fleet.client.get(MODEL_KEYS, name, namespace)
            entries = item.get("status", {}).get("hashes", ()) if item else ()
            return any(each["sha256"] == HASH and each.get("refused", False) is refused for each in entries)

        await eventually(is_recorded)


@pytest.fixture
async def keys(fleet: Attacked, tmp_path: Path) -> AsyncIterator[Keys]:
    for name in (TEAM, EVIL):
        await fleet.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    granted = {"spec": {"authentication": "APIKey", "keyGrants": [{"namespace": "*"}]}}
    await fleet.client.patch(INFERENCE_GATEWAYS, "default", granted)
    yield Keys(fleet, tmp_path)
    for namespace in (TEAM, EVIL):
        for item in (await fleet.client.list(MODEL_KEYS, namespace)).items:
            await fleet.client.delete(MODEL_KEYS, item["metadata"]["name"], namespace)


async def test_a_hash_that_is_added_to_an_older_key_takes_nothing_also_after_a_restart(keys: Keys) -> None:
    async with keys.controllers():
        await keys.apply(key(EVIL, "older", OTHER))
        await asyncio.sleep(1)  # a time of creation has seconds
        await keys.apply(key(TEAM, "app", HASH))
        await keys.until_held_by(f"{TEAM}/app")
        await keys.apply(key(EVIL, "older", OTHER, HASH))
        await keys.until_seen(EVIL, "older", refused=True)
        assert keys.holder() == f"{TEAM}/app"
    async with keys.controllers():
        await keys.apply(key(EVIL, "another", OTHER, HASH))
        await keys.until_seen(EVIL, "another", refused=True)
        assert keys.holder() == f"{TEAM}/app"


async def test_a_holder_that_is_deleted_and_made_again_has_its_key_again(keys: Keys) -> None:
    async with keys.controllers():
        await keys.apply(key(TEAM, "app", HASH))
        await keys.until_held_by(f"{TEAM}/app")
        await keys.apply(key(EVIL, "waiting", HASH))
        await keys.until_seen(EVIL, "waiting", refused=True)
        await keys.delete(TEAM, "app")
        await keys.until_held_by("")
        await keys.apply(key(EVIL, "late", HASH))
        await keys.until_seen(EVIL, "late", refused=True)
        assert not keys.holder()
    async with keys.controllers():
        await keys.apply(key(TEAM, "app", HASH))
        await keys.until_held_by(f"{TEAM}/app")


async def test_a_hash_moves_between_keys_of_one_team(keys: Keys) -> None:
    async with keys.controllers():
        await keys.apply(key(TEAM, "app", HASH))
        await keys.until_held_by(f"{TEAM}/app")
        await keys.apply(key(TEAM, "renamed", HASH))
        await keys.until_seen(TEAM, "renamed", refused=False)
        assert keys.holder() == f"{TEAM}/app"
        await keys.delete(TEAM, "app")
        await keys.until_held_by(f"{TEAM}/renamed")


async def test_two_that_come_at_once_have_one_holder_which_stays(keys: Keys) -> None:
    await keys.apply(key(TEAM, "app", HASH), key(EVIL, "copy", HASH))
    async with keys.controllers():

        async def is_decided() -> bool:
            return bool(keys.holder())

        await eventually(is_decided)
        first = keys.holder()
        other = (EVIL, "copy") if first == f"{TEAM}/app" else (TEAM, "app")
        await keys.until_seen(*other, refused=True)
    async with keys.controllers():
        await keys.apply(key(*other, HASH, OTHER, streams=3), key(TEAM, "another", "0" * 64))

        async def is_written() -> bool:
            return keys.knows(f"{TEAM}/another")

        await eventually(is_written)
        assert keys.holder() == first


@pytest.mark.parametrize("aliases", [["gpt-4o"], ["gpt-4o", "team/chat"], ["chat"]])
async def test_an_alias_of_the_attacker_receives_no_prompt_of_the_victim(
    tmp_path: Path, module_library: Path, aliases: list[str]
) -> None:
    victim = {"metadata": {"name": "app", "namespace": TEAM, "generation": 1}, **_spec(HASH)}
    thief = {"metadata": {"name": "a", "namespace": EVIL, "generation": 2}, **_spec(OTHER, HASH)}
    created: Mapping[str, str] = {"app": "2026-06-01T00:00:00Z", "a": "2026-01-01T00:00:00Z"}
    for each in (victim, thief):
        each["metadata"]["creationTimestamp"] = created[each["metadata"]["name"]]
    grants = [KeyGrant(namespace=TEAM), KeyGrant(namespace=EVIL), KeyGrant(namespace="settled")]
    settled = {
        "metadata": {"name": "ci", "namespace": "settled"},
        **_spec(hashlib.sha256(b"sk-settled").hexdigest()),
    }
    table = build_key_table([victim, settled], grants, KeyTable())
    table = build_key_table([victim, thief, settled], grants, table)
    services: dict[str, list[str]] = {f"{TEAM}/chat": ["gpt-4o"], f"{EVIL}/trap": aliases}
    async with running_server() as engine:
        settings = front(services, (), table.file)
        routes = map(engine.route, services)
        async with gateway_of(tmp_path, module_library, settings, *routes) as gateway:
            for model in ("gpt-4o", "team/chat", "chat"):
                body = json.dumps({"model": model, "input": "secret"}).encode()
                await _post(gateway.port, body)
        assert {each.service for each in engine.asked} <= {f"{TEAM}/chat"}
        assert engine.asked, "the victim's own service answers"


def _spec(*hashes: str) -> dict[str, Any]:
    return {"spec": {"hashes": [{"sha256": each} for each in hashes]}}


async def _post(port: int, body: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/embeddings HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {KEY}\r\n"
    writer.write(
        f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    )
    async with asyncio.timeout(60):
        await reader.readuntil(b"\r\n\r\n")
    writer.close()
