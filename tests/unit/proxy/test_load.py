"""What is read of the metrics of gateways, and of those that do not answer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.api.fields.requests.first_token import BUCKETS
from modelplane.gateway.usage.load import Load, Reading
from modelplane.proxy import gateway_metrics
from modelplane.telemetry import metric_definitions as ours, metrics, server
from modelplane.telemetry.metric_definitions import Program, Sample

SAMPLES = (
    Sample(ours.GATEWAY_ENDPOINT_IN_PROGRESS, ("ml/qwen-1",), 6),
    Sample(ours.GATEWAY_ENDPOINT_REQUESTS, ("ml/qwen-1",), 80),
    Sample(ours.GATEWAY_HELD, ("ml/qwen",), 2),
    Sample(ours.GATEWAY_HOLDS, ("ml/qwen", "released"), 3),
    Sample(ours.GATEWAY_HOLDS, ("ml/qwen", "left"), 1),
    Sample(ours.GATEWAY_TOKENS, ("ml/qwen", "prompt"), 1000),
    Sample(ours.GATEWAY_TOKENS, ("ml/qwen", "completion"), 50),
    Sample(ours.GATEWAY_IN_PROGRESS, (), 9),
    Sample(ours.GATEWAY_FIRST_TOKEN, ("ml/qwen-1",), 3, "0.02"),
    Sample(ours.GATEWAY_FIRST_TOKEN, ("ml/qwen-1",), 5, "1"),
    Sample(ours.GATEWAY_FIRST_TOKEN, ("ml/qwen-1",), 2, "+Inf"),
    Sample(ours.GATEWAY_FIRST_TOKEN, ("ml/qwen-1",), 400.5, ours.SUM),
    Sample(ours.GATEWAY_ENDPOINT_ANSWERS, ("ml/qwen-1", "2xx"), 70),
    Sample(ours.GATEWAY_ENDPOINT_ANSWERS, ("ml/qwen-1", "5xx"), 4),
    Sample(ours.GATEWAY_ENDPOINT_CUT_OFF, ("ml/qwen-1",), 2),
    Sample(ours.GATEWAY_ENDPOINT_TIMED, ("ml/qwen-1",), 70),
    Sample(ours.GATEWAY_ENDPOINT_SECONDS, ("ml/qwen-1",), 14.5),
)
FIRST_TOKENS = [{0: 3, 8: 5, 18: 2}.get(bucket, 0) for bucket in range(BUCKETS)]
READING = Reading(
    {"ml/qwen-1": 6},
    {"ml/qwen-1": 80},
    {"ml/qwen": 2},
    {"ml/qwen": 4},
    {"ml/qwen": 50},
    first_tokens={"ml/qwen-1": FIRST_TOKENS},
    answers={"ml/qwen-1": 74},
    errors={"ml/qwen-1": 6},
    timed={"ml/qwen-1": 70},
    milliseconds={"ml/qwen-1": 14500},
)


@pytest.fixture
def port() -> Iterator[int]:
    """Port of a gateway's metrics."""
    registry = metrics.build_registry(Program.GATEWAY, lambda: SAMPLES)
    with server.serve("127.0.0.1:0", alive=str, ready=str, registry=registry) as served:
        yield int(served.address.rpartition(":")[2])


async def test_pods_are_asked_for_their_metrics(port: int) -> None:
    assert await gateway_metrics.read_pods(["127.0.0.1"], port) == Load({"127.0.0.1": READING})


async def test_a_pod_that_does_not_answer_is_the_problem_and_the_others_count(port: int) -> None:
    found = await gateway_metrics.read_pods(["127.0.0.1", "127.0.0.2"], port)
    assert found.readings == {"127.0.0.1": READING}
    assert found.problem.startswith("cannot read the metrics of the gateway's pod at 127.0.0.2: ")


async def test_no_pod_is_a_problem() -> None:
    assert (await gateway_metrics.read_pods([])).problem == "the gateway has no ready pod"


def test_only_pods_that_are_ready_are_asked_and_each_once() -> None:
    def endpoint(address: str, uid: str, **conditions: bool) -> dict[str, Any]:
        return {"addresses": [address], "targetRef": {"uid": uid}, "conditions": conditions}

    slices: list[dict[str, Any]] = [
        {"endpoints": [endpoint("10.0.0.1", "a"), endpoint("10.0.0.2", "b", ready=False)]},
        {"endpoints": [endpoint("fd00::1", "a", ready=True)]},
        {"endpoints": None},
    ]
    assert gateway_metrics.list_ready_pods(slices) == ("10.0.0.1",)


def test_an_envoy_of_this_machine_is_read_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_metrics, "read", lambda _directory: SAMPLES)
    assert gateway_metrics.read_directory(Path("envoy")) == Load({"": READING})


def test_an_envoy_that_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    found = gateway_metrics.read_directory(tmp_path)
    assert (found.readings, bool(found.problem)) == ({}, True)


def test_a_gateway_that_began_again_or_is_new_has_no_negative_and_no_old_requests() -> None:
    before = Load({"a": Reading(requests={"x": 50})})
    now = Load({"a": Reading(requests={"x": 3}), "b": Reading(requests={"x": 1000})})
    assert now.count_since(before, "requests", "x") == 3
    assert now.count_since(now, "requests", "x") == 0


def test_streams_are_counted_by_bucket_since_the_last_reading() -> None:
    before = Load({"a": Reading(first_tokens={"x": [5, 0, 7], "y": [1, 1, 1]})})
    now = Load(
        {
            "a": Reading(first_tokens={"x": [6, 2, 1], "y": [1, 1, 1], "new": [0, 4, 0]}),
            "b": Reading(first_tokens={"x": [100, 0, 0]}),
        }
    )
    # The last bucket is below what it was, so that counter began again.
    assert now.count_first_tokens_since(before, "x") == (1, 2, 1)
    assert now.count_first_tokens_since(before, "new") == (0, 4, 0)
    for silent in ("y", "other"):
        assert now.count_first_tokens_since(before, silent) == ()


def test_a_gateway_that_did_not_answer_for_a_while_is_compared_with_its_last_counts() -> None:
    before = Load({"a": Reading(requests={"x": 5})})
    silent = Load(problem="no answer")
    assert (
        Load({"a": Reading(requests={"x": 6})}).count_since(silent.keep_missing(before), "requests", "x") == 1
    )
    assert Load({"b": Reading()}).keep_missing(before).readings == {"b": Reading()}
