"""A collector of OpenTelemetry, as far as it takes spans over OTLP/HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(HTTPServer):
    """Takes what is exported over OTLP/HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.received: list[ExportTraceServiceRequest] = []

    @property
    def url(self) -> str:
        """What to set the endpoint to."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def resource(self) -> dict[str, Any]:
        """The attributes of the only resource."""
        [resource] = {
            tuple((each.key, each.value.string_value) for each in spans.resource.attributes)
            for request in self.received
            for spans in request.resource_spans
        }
        return dict(resource)

    @property
    def spans(self) -> dict[str, Any]:
        """The last span of each name."""
        return {
            span.name: span
            for request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.server.headers.append(dict(self.headers))
        self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector meanwhile."""
    with Collector() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()


def attributes(span: Any) -> dict[str, Any]:
    """Return the attributes of a span."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
