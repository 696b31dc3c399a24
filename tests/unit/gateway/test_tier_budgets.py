"""A tier is closed by what its endpoints have used for its service, and by nothing else."""

import datetime as dt
from typing import Any

import pytest

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.services import select
from modelplane.gateway.usage.costs import Tariff
from modelplane.gateway.usage.ledger import Ledger, Row, Tokens
from modelplane.gateway.usage.spent_budgets import has_tier_budgets, sum_service_use

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
PAID = {"selector": {"matchLabels": {"tier": "paid"}}, "budget": {"tokensPerDay": 100}, "priority": 1}
OWN: dict[str, Any] = {"selector": {"matchLabels": {}}}


def service(*entries: dict[str, Any]) -> ModelService:
    return decode_as(ModelService, _service(*entries))


def _service(*entries: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "qwen", "namespace": "ml"}
    return {"kind": "ModelService", "metadata": metadata, "spec": {"endpoints": list(entries)}}


def endpoint(name: str, **labels: str) -> ModelEndpoint:
    metadata = {"name": name, "namespace": "ml", "labels": labels}
    spec = {"url": "https://api.example.com"}
    return decode_as(ModelEndpoint, {"kind": "ModelEndpoint", "metadata": metadata, "spec": spec})


ENDPOINTS = (endpoint("a", tier="paid"), endpoint("b", tier="paid"), endpoint("own"))


def used(*rows: tuple[str, str, int]) -> Ledger:
    sums = {Row("ml/ci", name, backend): Tokens(0, tokens) for name, backend, tokens in rows}
    return Ledger({"2026-11-30": sums})


@pytest.mark.parametrize(
    ("ledger", "spent"),
    [
        pytest.param(used(("ml/qwen", "ml/a", 60), ("ml/qwen", "ml/b", 40)), {0}, id="all its endpoints"),
        pytest.param(used(("ml/qwen", "ml/a", 99)), set(), id="not yet"),
        pytest.param(used(("ml/other", "ml/a", 100)), set(), id="for another service"),
        pytest.param(used(("ml/qwen", "ml/own", 100)), set(), id="another tier"),
        pytest.param(used(("ml/qwen", "other/a", 100)), set(), id="an endpoint of another namespace"),
        pytest.param(used(("ml/qwen", "ml/gone", 100)), set(), id="an endpoint that is gone"),
        pytest.param(used(("ml/", "?", 100)), {0}, id="unknown endpoints of the namespace"),
        pytest.param(used(("other/", "?", 100)), set(), id="unknown endpoints of another namespace"),
        pytest.param(Ledger(), set(), id="nothing"),
    ],
)
def test_a_tier_is_closed_when_its_endpoints_have_used_its_budget(ledger: Ledger, spent: set[int]) -> None:
    capped = service(PAID, OWN)
    use = sum_service_use(ledger, Tariff(None), NOW, {"ml/qwen", "ml/other"})
    found = use.list_states(capped, ENDPOINTS)
    assert found.spent.keys() == spent
    routed = [each.endpoint.metadata.name for each in select(capped, ENDPOINTS, Destinations(), found.spent)]
    assert routed == (["own"] if spent else ["own", "a", "b"])


def test_the_endpoints_of_a_closed_tier_do_not_become_those_of_a_later_entry() -> None:
    every = {"selector": {"matchLabels": {}}, "priority": 2}
    capped = service(PAID, every)
    names = [each.endpoint.metadata.name for each in select(capped, ENDPOINTS, Destinations(), {0})]
    assert names == ["own"]


def test_a_service_has_a_budget_if_one_of_its_entries_has() -> None:
    assert [has_tier_budgets(_service(*entries)) for entries in ((OWN,), (OWN, PAID))] == [False, True]


@pytest.mark.parametrize("spec", [None, [], {}, {"endpoints": 7}, {"endpoints": ["budget", None]}])
def test_a_service_of_another_form_has_no_budget(spec: object) -> None:
    assert not has_tier_budgets({"spec": spec})
