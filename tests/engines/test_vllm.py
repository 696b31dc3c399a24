"""vLLM as Modelplane relies on it: readiness, metrics, usage, tool calls, requests in progress at SIGTERM."""

import http.client
import itertools
import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engines.schemas import WEATHER, assert_answers_by_schema, assert_calls
from engines.servers import MODEL, Server, free_port, serve, tokens_of
from modelplane.api.fields.pods.containers import Container
from modelplane.compose.replica.backends.draining import draining

pytestmark = pytest.mark.engines

IMAGE = "vllm/vllm-openai:v0.23.0"
COMPOSED = draining(Container(name="engine", image=IMAGE)).arguments
"""The arguments that Modelplane adds for this version."""

METRICS = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:time_to_first_token_seconds_bucket",
    "vllm:inter_token_latency_seconds_bucket",
    "vllm:e2e_request_latency_seconds_bucket",
}
"""Metrics that an endpoint picker, a dashboard or an autoscaler reads."""

LOAD_FORMAT = "endpoint-load-metrics-format"
"""Header by which the gateway asks for a report of the load."""


@pytest.fixture(scope="module")
def server(vllm: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("vllm") / "log"
    tools = ("--enable-auto-tool-choice", "--tool-call-parser=hermes")
    with serve(vllm, tiny_model, free_port(), log, *COMPOSED, *tools) as running:
        yield running


def test_it_is_asked_for_nothing_but_its_path_of_health(server: Server) -> None:
    assert server.get("/health") == ""
    assert [each.id for each in server.client.models.list()] == [MODEL]


def test_its_metrics_have_the_names_that_are_read(server: Server) -> None:
    server.client.completions.create(model=MODEL, prompt="hello", max_tokens=4)
    lines = server.get("/metrics").splitlines()
    names = {line.partition("{")[0] for line in lines if not line.startswith("#")}
    assert sorted(METRICS - names) == []


def test_an_answer_reports_the_load_if_it_is_asked_and_a_stream_does_not(server: Server) -> None:
    ask = server.client.chat.completions.with_raw_response.create

    def report(format_: str, *, stream: bool) -> str | None:
        answer = ask(
            model=MODEL,
            messages=[{"role": "user", "content": "hello"}],
            max_tokens=2,
            stream=stream,
            extra_headers={LOAD_FORMAT: format_} if format_ else None,
        )
        return answer.headers.get("endpoint-load-metrics")

    name, _, content = (report("json", stream=False) or "").partition(" ")
    assert name == "JSON"
    assert json.loads(content)["named_metrics"].keys() == {"kv_cache_usage_perc", "num_requests_waiting"}
    assert report("", stream=False) is None
    # The reason why streams do not count in the gateway's choice.
    assert report("json", stream=True) is None


def test_a_stream_tells_its_usage_only_if_it_is_asked(server: Server) -> None:
    asked = list(
        server.client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "hello"}],
            max_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
    )
    assert asked[-1].choices == []
    assert asked[-1].usage is not None
    assert asked[-1].usage.completion_tokens == 5
    assert all("usage" not in event or event["usage"] is None for event in server.stream(5))


def test_it_calls_a_tool(server: Server) -> None:
    assert_calls(server, WEATHER)


def test_an_answer_fits_the_schema_that_it_is_asked_for(server: Server) -> None:
    assert_answers_by_schema(server)


def test_a_stream_ends_whole_after_the_signal_with_what_is_composed(server: Server) -> None:
    events = server.stream(2000, return_token_ids=True)
    before = list(itertools.islice(events, 20))
    server.stop()
    after = list(events)
    assert tokens_of(before) + tokens_of(after) == 2000
    assert after[-1]["choices"][0]["finish_reason"] == "length"
    assert server.process.wait(timeout=60) == 0


def test_without_it_streams_are_broken(vllm: Path, tiny_model: Path, tmp_path: Path) -> None:
    """The reason for the flag; once this fails, vLLM finishes its requests by itself."""
    with serve(vllm, tiny_model, free_port(), tmp_path / "log") as server:
        # Many, because one may have been computed to its end before the signal.
        streams = [server.stream(3000, return_token_ids=True) for _ in range(16)]
        tokens = [tokens_of([next(each)]) for each in streams]
        server.stop()
        for place, each in enumerate(streams):
            with suppress(OSError, http.client.HTTPException):
                tokens[place] += tokens_of(each)
        assert min(tokens) < 3000


def test_a_flag_that_it_does_not_know_is_named_in_the_last_lines(vllm: Path, tiny_model: Path) -> None:
    command = [str(vllm / "vllm"), "serve", str(tiny_model), "--tensor-parallel-sise=2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    assert "unrecognized arguments: --tensor-parallel-sise=2" in done.stderr.splitlines()[-1]
