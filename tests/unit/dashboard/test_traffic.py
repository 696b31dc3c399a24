"""Traffic of services: rates over a window, and records read across rotations of their file."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from modelplane.dashboard import traffic as module
from modelplane.dashboard.traffic import Rates, Traffic, UsageTail, _GatewayPods
from modelplane.gateway.usage.costs import UNIT
from modelplane.gateway.usage.usage_sums import UsageRecord
from modelplane.install import gateway_deployment
from modelplane.operations.pod_logs import Container
from modelplane.proxy.envoy_directory import USAGE_LOG

NOW = datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC)


def record(seconds_ago: float, **parts) -> UsageRecord:
    return UsageRecord(
        time=NOW - timedelta(seconds=seconds_ago), **{"status": 200, "service": "ml-team/qwen", **parts}
    )


def test_rates_are_those_of_the_window():
    traffic = Traffic()
    traffic.add([record(301)])
    traffic.add(
        record(each, prompt_tokens=6, completion_tokens=4, first_token_ms=100, duration_ms=200)
        for each in range(300, 0, -1)
    )
    traffic.add([record(0, status=503)])

    rates = traffic.compute_rates(NOW, lambda _: UNIT // 301)["ml-team/qwen"]
    assert rates == Rates(
        "ml-team/qwen",
        per_second=301 / 300,
        errors_percent=100 / 301,
        tokens_per_second=10.0,
        first_token_p50_ms=rates.first_token_p50_ms,
        first_token_p95_ms=rates.first_token_p95_ms,
        duration_p95_ms=rates.duration_p95_ms,
        cost_per_hour=rates.cost_per_hour,
        last=NOW,
    )
    assert rates.first_token_p50_ms == pytest.approx(100, abs=1)
    assert rates.first_token_p95_ms == pytest.approx(100, abs=1)
    assert rates.duration_p95_ms == pytest.approx(200, abs=2)
    assert rates.cost_per_hour == pytest.approx(12)


def test_a_service_without_requests_in_the_window_has_no_rates():
    traffic = Traffic()
    traffic.add([record(600), record(5, service="")])

    assert traffic.compute_rates(NOW) == {}


def test_rates_stay_right_with_more_requests_than_are_kept(monkeypatch):
    monkeypatch.setattr(module, "MOST_RECORDS", 1000)
    traffic = Traffic()
    traffic.add(record(each / 50) for each in range(5000, 0, -1))

    assert traffic.compute_rates(NOW)["ml-team/qwen"].per_second == pytest.approx(50, rel=0.01)


@pytest.fixture
def directory(tmp_path):
    (tmp_path / USAGE_LOG).parent.mkdir()
    return tmp_path


def append(directory, *requests: str, end: str = "\n"):
    with (directory / USAGE_LOG).open("ab") as file:
        file.writelines(msgspec.json.encode(record(1, request_id=each)) + end.encode() for each in requests)


def ids(tail: UsageTail) -> list[str]:
    return [each.request_id for each in tail.read()]


def test_records_are_read_once_also_across_a_rotation(directory):
    append(directory, "a", "b")
    tail = UsageTail(directory)
    assert ids(tail) == ["a", "b"]

    append(directory, "c")
    path = directory / USAGE_LOG
    path.rename(path.with_suffix(".00000001.jsonl"))
    append(directory, "d")

    assert ids(tail) == ["c", "d"]
    assert ids(tail) == []
    tail.close()


def test_a_line_that_is_being_written_is_read_when_it_is_complete(directory):
    append(directory, "a")
    append(directory, "b", end="")
    tail = UsageTail(directory)
    assert ids(tail) == ["a"]

    with (directory / USAGE_LOG).open("ab") as file:
        file.write(b"\nno record\n")

    assert ids(tail) == ["b"]
    tail.close()


def test_a_file_that_is_not_there_yet_has_no_records(tmp_path):
    tail = UsageTail(tmp_path)
    assert ids(tail) == []

    (tmp_path / USAGE_LOG).parent.mkdir()
    append(tmp_path, "a")
    assert ids(tail) == ["a"]
    tail.close()


async def test_logs_that_cannot_be_read_stay_unknown_until_a_record_comes(monkeypatch):
    client: Any = None
    pods = _GatewayPods(client)
    container = Container(
        "", client, "modelplane-system", "gateway-1", "u", gateway_deployment.ENVOY, True, 0, True
    )

    async def listed(*_arguments):
        return (container,)

    monkeypatch.setattr("modelplane.operations.pod_logs.list_containers", listed)
    pods._note("cannot read the log of gateway-1: forbidden")
    await pods._look()
    assert pods.problem == "cannot read the log of gateway-1: forbidden"

    pods._add(container, b"[info] no record")
    assert pods.problem != ""
    pods._add(container, msgspec.json.encode(record(1)))
    assert pods.problem == ""
    assert len(pods.read()) == 1
