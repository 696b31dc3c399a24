"""The exporter of spans: OpenTelemetry's own, over HTTP.

Imported only if traces are requested. The libraries read the standard environment variables themselves.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.util.types import AttributeValue

from modelplane import __version__

_PREFIX = "modelplane."
"""Prefix of attribute names, to avoid conflicts."""

_LAST_EXPORT_S = 5.0
"""Time limit for the last spans of a process that ends: less than a kubelet's grace period."""

_HEADER_PARSER_LOGGER = "opentelemetry.util.re"
"""OpenTelemetry's parser logs a header that it cannot read, and headers contain credentials."""


class _Span:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, **attributes: AttributeValue) -> None:
        self._span.set_attributes({_PREFIX + key: value for key, value in attributes.items()})

    def mark_failed(self, problem: str) -> None:
        self._span.set_status(trace.StatusCode.ERROR, problem)


class Exporter:
    """Sends spans to where the environment says, until it is closed."""

    def __init__(self, service: str, last_export_s: float = _LAST_EXPORT_S) -> None:
        """``service`` is the name of the service, unless the environment has one."""
        self._last_export_s = last_export_s
        logging.getLogger(_HEADER_PARSER_LOGGER).setLevel(logging.ERROR)
        defaults = {SERVICE_NAME: service, SERVICE_VERSION: __version__}
        given = OTELResourceDetector().detect().attributes
        resource = Resource.create({key: value for key, value in defaults.items() if key not in given})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("modelplane", __version__)

    @contextmanager
    def open_span(self, name: str, attributes: Mapping[str, AttributeValue]) -> Iterator[_Span]:
        """Work in a span; it is the parent of those that begin meanwhile, in the same task or thread."""
        # An exception's message goes into the status; its traceback is for the log.
        with self._tracer.start_as_current_span(
            name,
            attributes={_PREFIX + key: value for key, value in attributes.items()},
            record_exception=False,
        ) as span:
            yield _Span(span)

    def get_ids(self) -> dict[str, str]:
        """Return the ids of the present span, as OpenTelemetry writes them."""
        span = trace.get_current_span()
        # A task that outlives the span in which it was begun is still in its context.
        if not span.is_recording():
            return {}
        context = span.get_span_context()
        return {
            "trace_id": trace.format_trace_id(context.trace_id),
            "span_id": trace.format_span_id(context.span_id),
        }

    def close(self) -> None:
        """Send the remaining spans, or drop them after a few seconds."""
        last = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        last.start()
        last.join(self._last_export_s)
