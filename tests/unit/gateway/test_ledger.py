"""The ledger sums what its records say, whatever they say, and does not grow without end."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from modelplane.gateway.usage.ledger import (
    MOST_NAME_BYTES,
    MOST_TOKENS,
    UNKNOWN,
    Ledger,
    Row,
    Tokens,
    decode_rows,
    encode_rows,
    end_of,
    is_kept,
    join_ledgers,
    read_row,
)
from modelplane.gateway.usage.usage_sums import UsageRecord, record_of

NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def record(at: dt.datetime = NOON, **fields: Any) -> UsageRecord:
    known: dict[str, Any] = {"key": "ml/ci", "service": "ml/qwen", "backend": "ml/own"}
    return UsageRecord(time=at, status=200, **(known | {"prompt_tokens": 3, "completion_tokens": 4} | fields))


def ledger(*records: UsageRecord) -> Ledger:
    made = Ledger()
    for each in records:
        made.add(each)
    return made


def totals(made: Ledger, period: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for row, tokens in made.get_rows(period).items():
        found[row.key] = found.get(row.key, 0) + tokens.total
    return found


def test_a_record_counts_for_the_day_and_the_month_in_which_its_request_began() -> None:
    in_japan = dt.timezone(dt.timedelta(hours=9))
    made = ledger(
        record(dt.datetime(2026, 11, 30, 23, 59, 59, 999_999, dt.UTC)),
        record(dt.datetime(2026, 12, 1, 8, 30, tzinfo=in_japan)),
        record(dt.datetime(2026, 12, 1, 0, 0, tzinfo=dt.UTC)),
    )
    assert {period: totals(made, period) for period in made.periods} == {
        "2026-11-30": {"ml/ci": 14},
        "2026-11": {"ml/ci": 14},
        "2026-12-01": {"ml/ci": 7},
        "2026-12": {"ml/ci": 7},
    }


def test_a_sum_is_of_what_decides_about_budgets_and_prices() -> None:
    paid: dict[str, Any] = {"host": "api.example.com", "backend_model": "big"}
    made = ledger(record(model="auto", **paid), record(model="qwen"), record())
    assert set(made.get_rows("2026-11-30")) == {
        Row("ml/ci", "ml/qwen", "ml/own", "api.example.com", "big"),
        Row("ml/ci", "ml/qwen", "ml/own", "", UNKNOWN),
    }


@pytest.mark.parametrize(
    ("line", "total"),
    [
        pytest.param(b'"promptTokens":9007199254740992', 2**53, id="as many as a record can have"),
        pytest.param(b'"promptTokens":9007199254740993', None, id="one more"),
        pytest.param(b'"promptTokens":1e400', None, id="an endless number"),
        pytest.param(b'"promptTokens":NaN', None, id="no number"),
        pytest.param(b'"promptTokens":-1', None, id="fewer than none"),
        pytest.param(b'"promptTokens":1.5', None, id="half a token"),
        pytest.param(b'"promptTokens":7,"promptTokens":-7', None, id="twice, the last one negative"),
        pytest.param(b'"promptTokens":7', 7, id="of a prompt only"),
    ],
)
def test_hostile_counts_are_summed_exactly_or_not_at_all(line: bytes, total: int | None) -> None:
    found = record_of(b'{"time":"2026-11-30T12:00:00Z","status":200,"key":"ml/ci",' + line + b"}")
    assert (found is None) == (total is None)
    if found:
        assert totals(ledger(found), "2026-11-30") == {"ml/ci": total}


def test_a_sum_ends_at_a_number_that_every_reader_has() -> None:
    huge = Ledger({"2026-11": {Row("ml/ci"): Tokens(MOST_TOKENS, 1)}})
    found = join_ledgers([huge, huge]).get_rows("2026-11")
    assert found == {Row("ml/ci"): Tokens(MOST_TOKENS, 2)}
    assert decode_rows(encode_rows(found)) == found


@pytest.mark.parametrize(
    "text", [b'[["a","","","","",-1,0]]', b'[["a","","","","",0,9223372036854775807]]', b"[[1]]", b"{"]
)
def test_sums_that_are_damaged_are_none(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_rows(text)


@pytest.mark.parametrize(
    ("period", "kept"),
    [
        ("2026-11-30", True),
        ("2026-11-29", True),
        ("2026-11-28", False),
        ("2026-12-01", False),
        ("2026-11", True),
        ("2026-10", True),
        ("2026-09", False),
        ("2026-12", False),
    ],
)
def test_the_present_and_the_last_period_are_kept(period: str, kept: bool) -> None:
    made = Ledger({period: {Row("ml/ci"): Tokens(1, 1)}})
    made.forget(NOON)
    assert (is_kept(period, NOON), bool(made.periods)) == (kept, kept)


@pytest.mark.parametrize(
    ("period", "end"),
    [
        ("2026-11-30", "2026-12-01"),
        ("2026-12-31", "2027-01-01"),
        ("2028-02-28", "2028-02-29"),
        ("2026-01", "2026-02-01"),
        ("2026-12", "2027-01-01"),
        ("2028-02", "2028-03-01"),
    ],
)
def test_a_period_ends_where_the_next_one_begins(period: str, end: str) -> None:
    assert end_of(period) == dt.datetime.fromisoformat(end).replace(tzinfo=dt.UTC)


def bounded(most_bytes: int = 4000) -> Ledger:
    return Ledger(most_bytes=most_bytes)


def length(made: Ledger) -> int:
    return max(len(encode_rows(rows)) for rows in made.periods.values())


def test_names_that_a_client_chooses_have_no_row() -> None:
    made = ledger(*(record(model=f"model-{number}") for number in range(100)))
    assert made.get_rows("2026-11-30") == {Row("ml/ci", "ml/qwen", "ml/own", "", UNKNOWN): Tokens(300, 400)}


def test_a_name_that_is_too_long_is_not_kept() -> None:
    (row,) = ledger(record(host="h" * (MOST_NAME_BYTES + 1))).get_rows("2026-11-30")
    assert row.host == UNKNOWN


@pytest.mark.parametrize(
    ("fields", "keys", "endpoints"),
    [
        pytest.param(lambda n: {"backend_model": f"m-{n}"}, True, True, id="models"),
        pytest.param(lambda n: {"key": f"ml/k-{n}"}, False, True, id="keys"),
        pytest.param(lambda n: {"backend": f"ml/e-{n}"}, True, False, id="endpoints"),
        pytest.param(lambda n: {"key": f"ml/k-{n % 7}", "backend": f"ml/e-{n % 5}"}, True, True, id="both"),
    ],
)
def test_a_namespace_with_many_rows_makes_only_its_own_sums_coarser(
    fields: Callable[[int], dict[str, Any]], keys: bool, endpoints: bool
) -> None:
    """A key and an endpoint keep their sum unless their own number is the reason."""
    made = bounded()
    others = [record(key=f"web/{name}", service="web/s", backend="web/e", host="h") for name in "abc"]
    own = [record(), *(record(**fields(number)) for number in range(300))]
    for each in (*others, *own, *others):
        made.add(each)
        assert length(made) <= 4000
    rows = made.get_rows("2026-11-30")
    theirs = {row: tokens for row, tokens in rows.items() if row.owner == "web"}
    assert theirs == {read_row(each)[0]: Tokens(6, 8) for each in others}
    mine = {row: tokens.total for row, tokens in rows.items() if row.owner == "ml"}
    used = sum(each.key == "ml/ci" for each in own) * 7
    assert sum(tokens for row, tokens in mine.items() if row.namespace == "ml") == 301 * 7
    if keys:
        assert sum(tokens for row, tokens in mine.items() if row.key == "ml/ci") == used
    if endpoints:
        of_endpoint = sum(each.backend == "ml/own" for each in own) * 7
        assert sum(tokens for row, tokens in mine.items() if row.backend == "ml/own") == of_endpoint


names = st.text(st.characters(codec="utf-8"), max_size=40)
records = st.builds(
    record,
    key=st.one_of(st.just(""), st.builds("{}/{}".format, names, names)),
    service=st.builds("{}/{}".format, names, names),
    backend=names,
    host=names,
    backend_model=names,
    prompt_tokens=st.integers(0, 2**53),
)


@given(st.lists(records, max_size=60), st.integers(300, 3000))
def test_a_ledger_stays_below_its_maximum_and_loses_no_token_of_a_key(
    used: list[UsageRecord], most_bytes: int
) -> None:
    made = bounded(most_bytes)
    for each in used:
        made.add(each)
        assert length(made) <= most_bytes
    again = Ledger(
        {period: decode_rows(encode_rows(rows)) for period, rows in made.periods.items()}, most_bytes
    )
    assert again.periods == made.periods
    rows = made.get_rows("2026-11-30")
    if Row(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN) not in rows:
        with_key = [read_row(each)[1].total for each in used if read_row(each)[0].key]
        assert sum(tokens.total for row, tokens in rows.items() if row.key) == sum(with_key)
