"""Costs are exact, and the platform's prices alone decide about them."""

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from modelplane.api.fields.requests.pricing import Price, Pricing
from modelplane.gateway.usage.costs import UNIT, Tariff, format_amount, parse_units
from modelplane.gateway.usage.ledger import UNKNOWN, Row, Tokens
from modelplane.gateway.usage.usage_sums import UsageRecord

MILLION = Tokens(10**6, 0)
LIST = (
    Price(name="small", hosts=("a.com",), models=("s",), prompt_per_million="1", completion_per_million="2"),
    Price(name="big", hosts=("a.com",), models=("b",), prompt_per_million="9", completion_per_million="9"),
    Price(name="rest", hosts=("a.com",), prompt_per_million="5", completion_per_million="5"),
    Price(name="own", services=("ml/*", "web/chat"), prompt_per_million="0.1", completion_per_million="0.2"),
)


def tariff(*prices: Price) -> Tariff:
    return Tariff(Pricing(currency="USD", prices=prices or LIST))


def row(service: str = "ml/qwen", host: str = "", model: str = "m") -> Row:
    return Row("ml/ci", service, "ml/endpoint", host, model)


@pytest.mark.parametrize(
    ("row_", "cost"),
    [
        pytest.param(row(host="a.com", model="s"), "1.00", id="the first that fits"),
        pytest.param(row(host="a.com", model="m"), "5.00", id="another model of the host"),
        pytest.param(row(host="a.com", model=UNKNOWN), "9.00", id="an unknown model is the dearest"),
        pytest.param(row(), "0.10", id="all services of a namespace"),
        pytest.param(row(model=UNKNOWN), "0.10", id="an unknown model of a price without models"),
        pytest.param(row("web/chat"), "0.10", id="one service"),
        pytest.param(row("web/other"), None, id="no price"),
        pytest.param(row("web/other", host="b.com"), None, id="another host"),
        pytest.param(row("mlx/qwen"), None, id="a namespace that only begins so"),
        pytest.param(row(UNKNOWN, UNKNOWN, UNKNOWN), "9.00", id="nothing known: the dearest of all"),
    ],
)
def test_a_request_has_the_first_price_that_is_for_it(row_: Row, cost: str | None) -> None:
    found = tariff().compute_cost(row_, MILLION)
    assert (None if found is None else format_amount(found)) == cost


def test_without_prices_nothing_has_a_cost() -> None:
    assert Tariff(None).compute_cost(row(), MILLION) is None


def test_a_price_for_everything_is_for_everything() -> None:
    every = tariff(Price(name="all", prompt_per_million="1", completion_per_million="0"))
    assert every.compute_cost(Row(), MILLION) == UNIT


amounts = st.from_regex(r"\A[0-9]{1,12}(\.[0-9]{1,9})?\Z").filter(str.isascii)
counts = st.integers(0, 2**62)


@given(prompt=amounts, completion=amounts, tokens=st.builds(Tokens, counts, counts))
def test_no_part_of_a_cost_is_lost(prompt: str, completion: str, tokens: Tokens) -> None:
    price = Price(name="all", prompt_per_million=prompt, completion_per_million=completion)
    cost = tariff(price).compute_cost(row(), tokens)
    assert cost is not None
    exact = (tokens.prompt * parse_units(prompt) + tokens.completion * parse_units(completion)) // 10**6
    assert cost == exact
    assert parse_units(prompt) * 10**6 == int(Decimal(prompt).scaleb(21))


@pytest.mark.parametrize(
    ("cost", "amount"),
    [
        (0, "0.00"),
        (UNIT, "1.00"),
        (UNIT // 10, "0.10"),
        (1, "0.000000000000001"),
        (12 * UNIT + UNIT // 8, "12.125"),
    ],
)
def test_an_amount_has_all_its_decimals(cost: int, amount: str) -> None:
    assert format_amount(cost) == amount


def test_many_small_requests_cost_what_one_large_one_does() -> None:
    third = tariff(Price(name="all", prompt_per_million="0.000000001", completion_per_million="0.333333333"))
    parts = [third.compute_cost(row(), Tokens(1, 1)) or 0 for _ in range(1000)]
    assert sum(parts) == third.compute_cost(row(), Tokens(1000, 1000))


def test_a_name_that_a_client_chooses_does_not_choose_the_price() -> None:
    asked = UsageRecord(
        time=dt.datetime(2026, 11, 30, tzinfo=dt.UTC),
        status=200,
        host="a.com",
        model="s",
        prompt_tokens=10**6,
    )
    assert tariff().compute_cost_of_record(asked) == 9 * UNIT
    assert tariff().compute_cost_of_record(structs.replace(asked, backend_model="s")) == UNIT
