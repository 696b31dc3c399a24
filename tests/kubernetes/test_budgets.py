"""Budgets of API keys at a real Envoy: what it has recorded closes a key, and the next day opens it."""

import asyncio
import datetime as dt
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.fields.requests.pricing import Price, Pricing
from modelplane.api.inference_gateway import KeyGrant
from modelplane.controllers.gateway.budget_enforcement import Budgets
from modelplane.gateway.module_files.keys import KeyFile, KeyTable, build_key_table
from modelplane.gateway.route_table import Backend
from modelplane.host.file_system import write_private
from modelplane.operations.api_keys import encode_hash, hash_key as new_hash, make_key
from modelplane.proxy import envoy_directory as envoy_files
from modelplane.proxy.envoy_directory import USAGE_LOG
from modelplane.proxy.ledgers import get_now
from modelplane.proxy.proxies import GatewayDirectory
from support.envoys import Gateway, service
from support.gateway_module import Module, gateway_with, hashed, running_model, write_keys
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

CHAT = "/ml/qwen/v1/chat/completions"
PRICES = Pricing(
    currency="USD",
    prices=(
        Price(name="a", hosts=("api.example.com",), prompt_per_million="10", completion_per_million="20"),
    ),
)
"""A request of 11 and 22 tokens costs 0.00055."""


class Team:
    """ModelKeys of a namespace, and what writes them to the gateway."""

    def __init__(self, gateway: Gateway, **budgets: dict[str, Any]) -> None:
        self._gateway = gateway
        self.secrets = {name: make_key() for name in budgets}
        self._objects = [self._object(name, budget) for name, budget in budgets.items()]
        self.now = get_now()
        self._proxy = GatewayDirectory(gateway.directory, f"127.0.0.1:{gateway.port}", envoy_files.write)
        self.restart()

    def restart(self) -> None:
        """Begin anew, as controllers after a crash."""
        self._proxy = GatewayDirectory(
            self._gateway.directory, f"127.0.0.1:{self._gateway.port}", envoy_files.write
        )
        self._table = KeyTable()
        self._budgets = Budgets(
            self._proxy, changed=lambda _keys: None, touch=lambda: None, now=lambda: self.now
        )

    def _object(self, name: str, budget: dict[str, Any]) -> dict[str, Any]:
        hashes = [encode_hash(new_hash(self.secrets[name], None))]
        metadata = {"name": name, "namespace": "ml", "generation": 1}
        return {"metadata": metadata, "spec": {"hashes": hashes, "budget": budget}}

    async def reconcile(self) -> None:
        """Compare once, and write the keys."""
        self._table = build_key_table(self._objects, (KeyGrant(namespace="*"),), self._table)
        await self._budgets.apply(self._table, PRICES)
        await self._budgets._look(self._proxy)
        file = await self._budgets.apply(self._table, PRICES)
        assert isinstance(file, KeyFile)
        write_private(self._gateway.directory / "keys.json", file.encode())

    async def ask(self, name: str, **body: Any) -> tuple[int, Any]:
        headers = {"x-api-key": self.secrets[name]}
        async with self._gateway.client.post(self._gateway.url(CHAT), json=body, headers=headers) as answer:
            return answer.status, json.loads(await answer.text())

    async def used(self) -> dict[str, int]:
        """Return the tokens of this day by key."""
        found = await self._proxy.sum_usage()
        assert found is not None
        assert {row.host for row in found.get_rows(f"{self.now:%Y-%m}")} == {"api.example.com"}
        return {row.key: tokens.total for row, tokens in found.get_rows(f"{self.now:%Y-%m-%d}").items()}

    async def until(self, name: str, wanted: Callable[[int], bool]) -> tuple[int, Any]:
        """Reconcile until a request has a status; return the answer."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                await self.reconcile()
                status, said = await self.ask(name)
                if wanted(status):
                    return status, said
                await asyncio.sleep(0.1)


async def test_a_key_that_has_spent_its_budget_is_refused_until_the_next_day(
    tmp_path: Path, module_library: Path
) -> None:
    write_keys(tmp_path, hashed("sk-1", "ml/before"))
    front = {"authentication": "APIKey", "keys": "keys.json"}
    async with (
        running_model() as model,
        gateway_with(tmp_path, Module(module_library, front), usage_log=USAGE_LOG) as gateway,
    ):
        paid = Backend("ml/paid", (("127.0.0.1", model.port),), prefix="/", host="api.example.com")
        await gateway.apply(service(paid))
        team = Team(
            gateway,
            tokens={"tokensPerDay": 100},
            money={"costPerDay": "0.001"},
            other={"tokensPerDay": 10_000, "costPerMonth": "100"},
        )
        await team.until("other", lambda status: status == 200)
        streaming = await gateway.client.post(
            gateway.url(CHAT),
            json={"stream": True},
            headers={"x-api-key": team.secrets["tokens"], "x-wait": "1"},
        )
        for _ in range(2):
            await streaming.content.readline()
        for name in ("tokens", "money"):
            status, said = await team.until(name, lambda status: status != 200)
            assert (status, said["error"]["code"]) == (429, "insufficient_quota")
        # What was read counts once: after a restart the sums are the same, and nothing opens meanwhile.
        team.restart()
        await team.reconcile()
        answered = Counter(each["headers"]["modelplane-client"] for each in model.asked)
        answered["ml/tokens"] -= 1  # the stream, which has no record yet
        async with asyncio.timeout(PATIENCE_S):
            while await team.used() != {key: 33 * count for key, count in answered.items()}:
                await asyncio.sleep(0.05)
        assert 33 * answered["ml/tokens"] >= 100
        assert [(await team.ask(name))[0] for name in ("tokens", "money", "other")] == [429, 429, 200]
        model.go_on.set()
        assert b"[DONE]" in await streaming.read(), "a stream in progress is not cut off"
        team.now += dt.timedelta(days=1)
        for name in ("tokens", "money"):
            await team.until(name, lambda status: status == 200)
