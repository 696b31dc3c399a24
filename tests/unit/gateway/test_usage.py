"""Usage records are read one by one, and summed within bounds."""

import datetime as dt
import json
import random
from typing import Any

import pytest

from modelplane.gateway.usage import usage_sums
from modelplane.gateway.usage.usage_sums import By, Group, Times, Usage, UsageRecord, record_of

NOW = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC)


def line(**fields: Any) -> bytes:
    return json.dumps({"time": "2026-11-23T12:00:00.123Z", "status": 200} | fields).encode() + b"\n"


def record(**fields: Any) -> UsageRecord:
    known: dict[str, Any] = {"time": NOW, "status": 200}
    return UsageRecord(**(known | fields))


def test_a_record_of_envoy_is_read() -> None:
    found = record_of(
        b'{"attempts":2,"backend":"ml/own","bytesReceived":56,"bytesSent":164,"completionTokens":3,'
        b'"details":"via_upstream","durationMs":13,"estimated":false,"firstTokenMs":9,"flags":"-","heldMs":4,'
        b'"key":"ml/ci","method":"POST","model":"qwen","namespace":"ml","path":"/v1/chat/completions",'
        b'"promptTokens":7,"requestId":"1","service":"ml/qwen","status":200,"stream":true,'
        b'"time":"2026-11-23T14:53:27.748Z","totalTokens":10}\n'
    )
    assert found == UsageRecord(
        time=dt.datetime(2026, 11, 23, 14, 53, 27, 748_000, dt.UTC),
        status=200,
        request_id="1",
        method="POST",
        path="/v1/chat/completions",
        key="ml/ci",
        namespace="ml",
        service="ml/qwen",
        model="qwen",
        backend="ml/own",
        attempts=2,
        flags="-",
        details="via_upstream",
        stream=True,
        prompt_tokens=7,
        completion_tokens=3,
        total_tokens=10,
        first_token_ms=9,
        held_ms=4,
        duration_ms=13,
        bytes_received=56,
        bytes_sent=164,
    )


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b"", id="empty"),
        pytest.param(
            b"[2026-11-23 14:53:27][warning][main] caught SIGTERM\n", id="a line of Envoy's own log"
        ),
        pytest.param(line()[:-20], id="cut off"),
        pytest.param(line()[:-20] + line(), id="cut off and joined with the next"),
        pytest.param(b"{}", id="no record"),
        pytest.param(b"null", id="no object"),
        pytest.param(line(status="200"), id="a text for a number"),
        pytest.param(line(promptTokens=-5), id="fewer tokens than none"),
        pytest.param(line(promptTokens=True), id="a truth for a number"),
        pytest.param(line(promptTokens=2**60), id="more tokens than there are"),
        pytest.param(b'{"time":"2026-11-23T12:00:00Z","status":1e999}', id="an endless number"),
        pytest.param(line(time="2026-11-23T12:00:00"), id="a time without a zone"),
        pytest.param(line(time="yesterday"), id="no time"),
        pytest.param(line(model="m" * (1 << 20)), id="a megabyte"),
        pytest.param(line(model="m").replace(b'"m"', b'"\xff\xfe"'), id="no UTF-8"),
        pytest.param(b"[" * 60_000, id="deep"),
        pytest.param(b"\x00" * 1000, id="zeros of a file that was cut off by a power failure"),
    ],
)
def test_a_damaged_line_is_no_record(damaged: bytes) -> None:
    assert record_of(damaged) is None


def test_a_client_cannot_forge_a_field() -> None:
    forged = '","key":"web/other","promptTokens":9,"model":"'
    found = record_of(line(model=forged, key="ml/ci", unknown={"key": "web/other"}))
    assert found == record(
        time=dt.datetime(2026, 11, 23, 12, 0, 0, 123_000, dt.UTC), model=forged, key="ml/ci"
    )


def sums(*records: UsageRecord, by: By = By.KEY, since: dt.datetime | None = None) -> Usage:
    found = Usage(by, since)
    for each in records:
        found.add(each)
    return found


def counts(group: Group) -> tuple[int, ...]:
    tokens = (group.prompt_tokens, group.completion_tokens, group.estimated_tokens)
    return (group.requests, group.errors, *tokens)


def test_records_are_summed_by_a_field_and_most_tokens_come_first() -> None:
    found = sums(
        record(key="ml/a", prompt_tokens=1, completion_tokens=2),
        record(key="ml/b", prompt_tokens=10, completion_tokens=20, estimated=True),
        record(key="ml/b", prompt_tokens=100, completion_tokens=200),
        record(key="ml/b", status=429),
        record(key="ml/b", status=0),
        record(),
    )
    assert [(name, counts(group)) for name, group in found.groups] == [
        ("ml/b", (4, 2, 110, 220, 30)),
        ("ml/a", (1, 0, 1, 2, 0)),
        ("", (1, 0, 0, 0, 0)),
    ]


@pytest.mark.parametrize("by", By)
def test_every_field_to_sum_by_is_one_of_a_record(by: By) -> None:
    ((name, _),) = sums(record(**{by.value: "x"}), by=by).groups
    assert name == "x"


def test_requests_before_the_time_asked_for_do_not_count() -> None:
    before = record(time=NOW - dt.timedelta(milliseconds=1))
    found = sums(before, record(), since=NOW)
    assert [counts(group) for _, group in found.groups] == [(1, 0, 0, 0, 0)]


def test_clients_that_send_ever_new_names_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_sums, "MOST_GROUPS", 3)
    found = sums(*(record(model=f"m-{number}", prompt_tokens=1) for number in range(10)), by=By.MODEL)
    assert [name for name, _ in found.groups] == ["m-0", "m-1", "m-2"]
    assert counts(found.others) == (7, 0, 7, 0, 0)


@pytest.mark.parametrize("most", [1, 10, 1_000, 10_000_000])
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_a_percentile_is_off_by_one_percent_at_most(most: int, share: float) -> None:
    draw = random.Random(7)  # noqa: S311 - the same times each time
    times = sorted(draw.randrange(most) for _ in range(1001))
    found = Times()
    for each in times:
        found.add(each)
    exact = next(each for at, each in enumerate(times, 1) if at >= share * len(times))
    percentile = found.find_percentile(share)
    assert percentile is not None
    assert abs(percentile - exact) <= max(exact * 0.011, 0.5)
    assert len(found._buckets) < 1000


def test_no_times_have_no_percentile() -> None:
    assert Times().find_percentile(0.5) is None
