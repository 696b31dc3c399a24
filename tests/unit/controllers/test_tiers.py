"""Services are composed anew when a tier closes or opens, and not for each request."""

import datetime as dt
from typing import Any

import pytest

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.controllers.fleet_resources import resource_of_kind
from modelplane.controllers.gateway.budget_enforcement import Tiers
from modelplane.gateway.usage.costs import Tariff
from modelplane.gateway.usage.ledger import Ledger
from modelplane.gateway.usage.usage_sums import UsageRecord
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


class Bench:
    """Tiers with copies that a test fills."""

    def __init__(self, client: Client) -> None:
        self.services = Informer(client, resource_of_kind(ModelService))
        self.endpoints = Informer(client, resource_of_kind(ModelEndpoint))
        self.changed: list[list[str]] = []
        self.tiers = Tiers(
            self.services,
            self.endpoints,
            lambda items: self.changed.append([each["metadata"]["name"] for each in items]),
        )
        self.ledger = Ledger()
        self.version = 0

    def has(self, informer: Informer, name: str, spec: Any) -> None:
        self.version += 1
        own = {"uid": name, "resourceVersion": str(self.version), "labels": {"tier": "paid"}}
        metadata = {"name": name, "namespace": "ml", **own}
        informer.remember({"kind": informer.resource.kind, "metadata": metadata, "spec": spec})

    async def use(self, tokens: int, now: dt.datetime = NOW) -> None:
        record = UsageRecord(
            time=NOW, status=200, service="ml/qwen", backend="ml/paid", completion_tokens=tokens
        )
        self.ledger.add(record)
        await self.tiers.compare(self.ledger, Tariff(None), now)


@pytest.fixture
def bench(client: Client) -> Bench:
    made = Bench(client)
    made.has(made.endpoints, "paid", {"url": "https://api.example.com"})
    return made


def capped(**budget: Any) -> Any:
    return {"endpoints": [{"selector": {"matchLabels": {"tier": "paid"}}, "budget": budget}]}


async def test_a_service_changes_when_a_tier_closes_and_when_it_opens(bench: Bench) -> None:
    bench.has(bench.services, "qwen", capped(tokensPerDay=100))
    bench.has(bench.services, "other", {"endpoints": [{"selector": {"matchLabels": {}}}]})
    await bench.use(50)
    assert bench.changed == [["qwen"]], "now it is known"
    await bench.use(49)
    assert len(bench.changed) == 1
    await bench.use(1)
    await bench.use(1)
    assert bench.changed[1:] == [["qwen"]]
    await bench.use(0, NOW + dt.timedelta(days=1))
    assert bench.changed[2:] == [["qwen"]]


async def test_a_service_that_cannot_be_read_any_more_stays_as_it_was(bench: Bench) -> None:
    bench.has(bench.services, "qwen", capped(tokensPerDay=100))
    await bench.use(100)
    bench.has(bench.services, "qwen", capped(tokensPerDay="many"))
    await bench.use(1)
    assert len(bench.changed) == 1
