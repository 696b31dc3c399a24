"""SGLang as Modelplane relies on it: readiness, metrics, usage, requests in progress at SIGTERM."""

import itertools
import subprocess
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.schemas import STRICT_WEATHER, assert_answers_by_schema, assert_calls
from engines.servers import MODEL, SGLANG_ON_A_PROCESSOR, Server, free_port, serve_sglang
from modelplane.api.fields.pods.containers import Container
from modelplane.compose.replica.backends.draining import Draining, draining

pytestmark = pytest.mark.engines

METRICS = {
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
    "sglang:token_usage",
    "sglang:prompt_tokens_total",
    "sglang:generation_tokens_total",
    "sglang:time_to_first_token_seconds_bucket",
    "sglang:inter_token_latency_seconds_bucket",
    "sglang:e2e_request_latency_seconds_bucket",
}
"""Metrics that an endpoint picker, a dashboard or an autoscaler reads."""


@pytest.fixture(scope="module")
def server(sglang: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("sglang") / "log"
    flags = ("--enable-metrics", "--tool-call-parser=qwen25")
    with serve_sglang(sglang, tiny_model, free_port(), log, *flags) as running:
        yield running


def test_it_is_asked_for_nothing_but_its_path_of_health(server: Server) -> None:
    assert server.get("/health") == ""
    assert [each.id for each in server.client.models.list()] == [MODEL]


def test_its_metrics_have_the_names_that_are_read(server: Server) -> None:
    asked = server.client.completions.create(model=MODEL, prompt="hello", max_tokens=4, stream=True)
    assert list(asked) != []
    lines = server.get("/metrics").splitlines()
    names = {line.partition("{")[0] for line in lines if not line.startswith("#")}
    assert sorted(METRICS - names) == []


def test_a_stream_tells_its_usage_only_if_it_is_asked(server: Server) -> None:
    *_, last = server.stream(5, stream_options={"include_usage": True})
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 5)
    assert all(event.get("usage") is None for event in server.stream(5))


def test_it_calls_a_tool_with_arguments_that_fit_its_schema_if_it_is_strict(server: Server) -> None:
    assert_calls(server, STRICT_WEATHER)


def test_an_answer_fits_the_schema_that_it_is_asked_for(server: Server) -> None:
    assert_answers_by_schema(server)


def test_a_stream_ends_whole_after_the_signal_without_any_flag(server: Server) -> None:
    image = Container(name="engine", image="lmsysorg/sglang:v0.5.23")
    assert draining(image) == Draining(), "it needs none"
    events = server.stream(2000, stream_options={"include_usage": True})
    assert len(list(itertools.islice(events, 20))) == 20
    server.stop()
    with pytest.raises(urllib.error.HTTPError, match="503"):
        server.get("/health")
    assert list(server.stream(4)), "new requests are still answered"
    *_, end, usage = events
    assert end["choices"][0]["finish_reason"] == "length"
    assert usage["usage"]["completion_tokens"] == 2000
    assert server.process.wait(timeout=60) == 0


def test_without_a_flag_it_has_no_metrics(sglang: Path, tiny_model: Path, tmp_path: Path) -> None:
    """The reason for the flag in the docs; once this fails, metrics are there without it."""
    with (
        serve_sglang(sglang, tiny_model, free_port(), tmp_path / "log") as server,
        pytest.raises(urllib.error.HTTPError, match="404"),
    ):
        server.get("/metrics")


def test_a_context_longer_than_the_models_ends_it(sglang: Path, tiny_model: Path) -> None:
    command = [str(sglang / "python"), "-m", "sglang.launch_server", f"--model-path={tiny_model}"]
    done = subprocess.run(
        [*command, *SGLANG_ON_A_PROCESSOR, "--context-length=9000"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode != 0
    assert "context_length (9000) is greater than the derived context_length (4096)" in done.stderr


def test_a_flag_that_it_does_not_know_is_named_in_the_last_lines(sglang: Path, tiny_model: Path) -> None:
    command = [str(sglang / "python"), "-m", "sglang.launch_server", f"--model-path={tiny_model}"]
    done = subprocess.run(
        [*command, *SGLANG_ON_A_PROCESSOR, "--tp-sise=2"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    assert "unrecognized arguments: --tp-sise=2" in done.stderr.splitlines()[-1]
