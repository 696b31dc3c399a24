"""Spans, as a collector receives them."""

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from modelplane import __version__
from modelplane.telemetry import otlp, traces
from modelplane.telemetry.metric_definitions import Result
from modelplane.telemetry.traces import JsonFormatter
from support.collector import Collector, attributes, collecting


@pytest.fixture(autouse=True)
def untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what the environment of the test run asks for."""
    for name in ("ENDPOINT", "TRACES_ENDPOINT", "PROTOCOL", "TRACES_PROTOCOL"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    for name in ("SDK_DISABLED", "TRACES_EXPORTER", "SERVICE_NAME", "RESOURCE_ATTRIBUTES", "TRACES_SAMPLER"):
        monkeypatch.delenv(f"OTEL_{name}", raising=False)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


def test_a_span_arrives_with_its_attributes_and_its_service(collector: Collector) -> None:
    exporting = traces.export_spans("modelplane-controller")
    with exporting, traces.open_span("placement", name="qwen", clusters=3, short=False) as span:
        span.set(placed=2, share=0.5, result=Result.SUCCESS)
    assert collector.paths == ["/v1/traces"]
    assert attributes(collector.spans["placement"]) == {
        "modelplane.name": "qwen",
        "modelplane.clusters": 3,
        "modelplane.short": False,
        "modelplane.placed": 2,
        "modelplane.share": 0.5,
        "modelplane.result": "success",
    }
    assert collector.resource["service.name"] == "modelplane-controller"
    assert collector.resource["service.version"] == __version__


def test_a_span_within_another_is_its_child_and_those_of_other_tasks_are_not(collector: Collector) -> None:
    async def work(name: str) -> None:
        with traces.open_span(name):
            await asyncio.sleep(0)
            with traces.open_span(f"{name} within"):
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(work("a"), work("b"))

    with traces.export_spans("s"):
        asyncio.run(both())
    spans = collector.spans
    parents = {name: span.parent_span_id for name, span in spans.items()}
    assert parents == {
        "a": b"",
        "b": b"",
        "a within": spans["a"].span_id,
        "b within": spans["b"].span_id,
    }


def test_a_failure_is_the_status_of_the_span_without_its_traceback(collector: Collector) -> None:
    with traces.export_spans("s"):
        with traces.open_span("told") as span:
            span.mark_failed("no answer")
        with pytest.raises(ValueError, match="broken"), traces.open_span("left"):
            raise ValueError("broken")
    status = {name: (span.status.code, span.status.message) for name, span in collector.spans.items()}
    assert status == {"told": (2, "no answer"), "left": (2, "ValueError: broken")}
    assert [list(span.events) for span in collector.spans.values()] == [[], []]


def test_the_environment_names_the_service_and_says_what_to_send(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/own/path")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    with traces.export_spans("modelplane-controller"), traces.open_span("a"):
        pass
    assert collector.paths == ["/own/path"]
    assert collector.headers[0]["authorization"] == "Bearer s3cret"
    assert collector.resource["service.name"] == "mine"
    assert collector.resource["deployment.environment.name"] == "test"


def test_the_environment_chooses_the_sampler(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    with traces.export_spans("s"), traces.open_span("a"):
        assert traces.get_ids() == {}
    assert collector.received == []


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="an empty one counts as unset"),
        pytest.param("otlp,console", id="one of several"),
    ],
)
def test_the_environment_may_name_the_exporter(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", value)
    with traces.export_spans("s"), traces.open_span("a"):
        pass
    assert list(collector.spans) == ["a"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("OTEL_SDK_DISABLED", "true", id="disabled"),
        pytest.param("OTEL_TRACES_EXPORTER", "none", id="no exporter"),
        pytest.param("OTEL_EXPORTER_OTLP_ENDPOINT", "", id="no endpoint"),
    ],
)
def test_nothing_is_sent_where_the_environment_does_not_want_it(
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv(name, value)
    with traces.export_spans("s"), traces.open_span("a") as span:
        span.set(b=1)
        span.mark_failed("c")
    assert (collector.received, caplog.text) == ([], "")


def test_a_protocol_that_is_not_spoken_is_said_and_the_work_goes_on(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with traces.export_spans("s"), traces.open_span("a"):
        pass
    assert caplog.messages == ["no traces, because protocol grpc is not supported: use http/protobuf"]
    assert collector.received == []


def test_an_exporter_that_is_not_installed_is_said_and_the_work_goes_on(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "modelplane.telemetry.otlp", raising=False)
    monkeypatch.delattr("modelplane.telemetry.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with traces.export_spans("s"), traces.open_span("a"):
        pass
    assert caplog.messages == ["no traces, because opentelemetry is not installed: install the extra [otel]"]
    assert collector.received == []


def test_an_exporter_that_cannot_be_made_is_said_and_the_work_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    with traces.export_spans("s"), traces.open_span("a"):
        pass
    assert caplog.messages == ["no traces: max_queue_size must be a positive integer."]


def test_a_header_that_cannot_be_read_is_not_quoted_in_the_log(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "s3cret")
    with caplog.at_level(logging.DEBUG), traces.export_spans("s"), traces.open_span("a"):
        pass
    assert "s3cret" not in caplog.text
    assert list(collector.spans) == ["a"]


def test_a_collector_that_does_not_answer_holds_up_the_end_for_moments_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with closing(otlp.Exporter("s", last_export_s=0.05)) as exporter, exporter.open_span("a", {}):
            pass
        connection, _ = silent.accept()  # it was asked, and nobody waited for the answer
        connection.close()


def test_a_log_line_has_the_ids_of_the_span_in_which_it_was_written(collector: Collector) -> None:
    record = logging.makeLogRecord({"msg": "a"})
    with traces.export_spans("s"):
        with traces.open_span("a"):
            within = JsonFormatter().format(record)
        after = JsonFormatter().format(record)
    span = collector.spans["a"]
    assert f'"trace_id": "{span.trace_id.hex()}", "span_id": "{span.span_id.hex()}"' in within
    assert "trace_id" not in after


def test_a_task_that_outlives_its_span_logs_without_its_ids(collector: Collector) -> None:
    async def later(ended: asyncio.Event) -> dict[str, str]:
        await ended.wait()
        return traces.get_ids()

    async def main() -> dict[str, str]:
        ended = asyncio.Event()
        with traces.open_span("a"):
            task = asyncio.create_task(later(ended))
        ended.set()
        return await task

    with traces.export_spans("s"):
        assert asyncio.run(main()) == {}
    assert list(collector.spans) == ["a"]


def test_nothing_of_opentelemetry_is_imported_where_nobody_asks_for_traces() -> None:
    script = """
import sys
from modelplane.cli.processes.long_running import log_to_stderr
from modelplane.controllers import manager
from modelplane.telemetry import traces
log_to_stderr(format="json")
with traces.export_spans("s"), traces.open_span("a"):
    pass
print(sorted(name for name in sys.modules if name.startswith(("opentelemetry", "google", "requests"))))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env={}, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_help_imports_neither_metrics_nor_traces() -> None:
    script = """
import sys
from modelplane.cli.main import main
try:
    main(["--help"])
except SystemExit:
    pass
print(sorted(name for name in sys.modules if name.startswith(("opentelemetry", "prometheus_client"))))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env={}, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.endswith("\n[]\n")
