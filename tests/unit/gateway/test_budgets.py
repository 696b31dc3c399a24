"""Budgets: what is spent, until when, and which keys are refused for it."""

import datetime as dt
from typing import Any

import pytest

from modelplane.api.fields.requests.pricing import Budget, Price, Pricing
from modelplane.api.inference_gateway import KeyGrant
from modelplane.gateway.module_files.keys import KeyTable, build_key_table
from modelplane.gateway.usage.costs import Tariff
from modelplane.gateway.usage.ledger import Ledger, Row, Tokens, join_ledgers
from modelplane.gateway.usage.spent_budgets import (
    BudgetTable,
    budget_table,
    find_spent,
    has_budgets,
    list_blocked,
    refuse_spent,
)

NOW = dt.datetime(2026, 11, 30, 23, 59, 59, tzinfo=dt.UTC)
NEXT = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
USD = Tariff(
    Pricing(currency="USD", prices=(Price(name="all", prompt_per_million="10", completion_per_million="10"),))
)


def key(name: str = "ci", namespace: str = "ml", **spec: Any) -> dict[str, Any]:
    digest = (name + namespace).encode().hex().ljust(64, "0")
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"hashes": [{"sha256": digest}], **spec}}


def keys(*objects: dict[str, Any], **grant: Any) -> KeyTable:
    return build_key_table(objects, (KeyGrant(namespace="*", **grant),), KeyTable())


def used(tokens: int, name: str = "ml/ci", period: str = "2026-11-30") -> Ledger:
    sums = {Row(name, "ml/qwen"): Tokens(tokens, 0)}
    return Ledger({period: sums, period[:7]: sums} if len(period) > 7 else {period: sums})


def state(keys_: KeyTable, ledger: Ledger, now: dt.datetime = NOW, tariff: Tariff = USD) -> BudgetTable:
    return budget_table(keys_.parts, ledger, tariff, now)


def refused(keys_: KeyTable, table: BudgetTable) -> set[str]:
    return set(list_blocked(refuse_spent(keys_.file, table.spent)))


@pytest.mark.parametrize(
    ("budget", "ledger", "percent", "opens"),
    [
        pytest.param({"tokensPerDay": 100}, used(99), 99, "2026-12-01T00:00:00Z", id="almost"),
        pytest.param({"tokensPerDay": 100}, used(100), 100, "2026-12-01T00:00:00Z", id="all"),
        pytest.param({"tokensPerDay": 100}, used(2**62), 100, "2026-12-01T00:00:00Z", id="far beyond"),
        pytest.param({"tokensPerDay": 100}, used(100, period="2026-11-29"), 0, None, id="yesterday"),
        pytest.param({"tokensPerMonth": 100}, used(100, period="2026-11-29"), 100, None, id="this month"),
        pytest.param({"tokensPerMonth": 100}, used(100, period="2026-10-30"), 0, None, id="last month"),
        pytest.param({"costPerDay": "0.001"}, used(99), 99, None, id="money, almost"),
        pytest.param({"costPerDay": "0.001"}, used(100), 100, None, id="money, all"),
        pytest.param({"costPerDay": "0.001000001"}, used(100), 99, None, id="money, but its ninth decimal"),
        pytest.param({"costPerDay": "0"}, used(0), 100, None, id="no money at all"),
        pytest.param({"tokensPerDay": 100}, used(100, "ml/other"), 0, None, id="another key's"),
        pytest.param({"tokensPerDay": 100}, used(100, "xml/ci"), 0, None, id="another namespace's"),
        pytest.param({"tokensPerDay": 100}, Ledger(), 0, None, id="no use"),
    ],
)
def test_a_budget_is_spent_when_its_limit_is_reached(
    budget: dict[str, Any], ledger: Ledger, percent: int, opens: str | None
) -> None:
    table = keys(key(budget=budget))
    found = state(table, ledger)
    (only,) = found.list_states("ml/ci")
    assert (only.percent, only.is_spent) == (percent, percent == 100)
    assert opens in (None, only.opens)
    assert refused(table, found) == ({"ml/ci"} if only.is_spent else set())


def test_the_next_day_and_the_next_month_open_a_key_again() -> None:
    table = keys(key(budget={"tokensPerDay": 10, "tokensPerMonth": 10}))
    ledger = used(10)
    assert refused(table, state(table, ledger, NOW)) == {"ml/ci"}
    assert refused(table, state(table, ledger, NEXT)) == set()


def test_the_limit_that_opens_last_says_until_when() -> None:
    early = dt.datetime(2026, 11, 3, tzinfo=dt.UTC)
    table = keys(key(budget={"tokensPerDay": 10, "tokensPerMonth": 10}))
    last = find_spent(state(table, used(10, period="2026-11-03"), early).list_states("ml/ci"))
    assert last is not None
    assert (last.limit, last.opens) == ("tokensPerMonth", "2026-12-01T00:00:00Z")


def test_the_budget_of_a_namespace_is_for_the_sum_of_its_keys_and_for_each_namespace() -> None:
    table = keys(key("a"), key("b"), key("c", "web"), budget=Budget(tokens_per_day=100))
    ledger = join_ledgers([used(60, "ml/a"), used(40, "ml/b"), used(99, "web/c")])
    found = state(table, ledger)
    assert refused(table, found) == {"ml/a", "ml/b"}
    assert [each.percent for each in found.list_states("web/c")] == [90], (
        "in tens: each step is written to every key"
    )


def test_a_deleted_key_has_spent_its_part_of_the_namespaces_budget() -> None:
    table = keys(key("new"), budget=Budget(tokens_per_day=100))
    assert refused(table, state(table, used(100, "ml/deleted"))) == {"ml/new"}


def test_a_key_only_narrows() -> None:
    table = keys(key(budget={"tokensPerDay": 1_000_000}), budget=Budget(tokens_per_day=100))
    assert refused(table, state(table, used(100))) == {"ml/ci"}


def test_two_gateways_together_spend_a_budget() -> None:
    table = keys(key(budget={"tokensPerDay": 100}))
    assert refused(table, state(table, used(50))) == set()
    assert refused(table, state(table, join_ledgers([used(50), used(50)]))) == {"ml/ci"}


def test_a_key_that_is_blocked_stays_blocked_by_its_owner() -> None:
    table = keys(key(budget={"tokensPerDay": 1}, blocked=True))
    file = refuse_spent(table.file, state(table, used(1)).spent)
    assert [each.blocked for each in file.keys] == ["Key"]


def test_without_prices_money_is_not_spent() -> None:
    table = keys(key(budget={"costPerDay": "1"}))
    found = state(table, used(10**12), tariff=Tariff(None))
    assert (found.currency, refused(table, found)) == ("", set())


def test_keys_without_budgets_need_no_ledger() -> None:
    table = keys(key())
    assert not has_budgets(table.parts)
    assert refuse_spent(table.file, frozenset()) is table.file


def test_an_unreadable_key_keeps_its_budget() -> None:
    grants = (KeyGrant(namespace="*"),)
    before = keys(key(budget={"tokensPerDay": 10}))
    table = build_key_table([key(budget={"tokensPerDay": "many"})], grants, before)
    assert refused(table, state(table, used(10))) == {"ml/ci"}
