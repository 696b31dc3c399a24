"""Spans of Modelplane's work, for OpenTelemetry, and log lines as JSON objects that name their span.

Unless an environment variable requests traces, OpenTelemetry is not imported, and a span costs next to
nothing.

``OTEL_EXPORTER_OTLP_ENDPOINT`` or ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`` asks for traces; the rest of the
standard variables define sampling and transport. Failures to send are logged and do not stop the work.

Log lines are for log collectors:

    log.info("...", extra=make_fields(kind="ModelReplica", namespace="a", name="b"))

The logging package reserves ``name`` and others, so an object's fields are passed together, as one.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # heavy, and not always installed
    from modelplane.telemetry.otlp import Exporter

_log = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"

Value = str | bool | int | float

_FIELDS = "fields"


class Span(Protocol):
    """One piece of work, while it lasts."""

    def set(self, **attributes: Value) -> None:
        """Say more of it."""

    def mark_failed(self, problem: str) -> None:
        """Say that it did not succeed, and why."""


class _Unrecorded:
    def set(self, **attributes: Value) -> None:
        pass

    def mark_failed(self, problem: str) -> None:
        pass


_UNRECORDED: AbstractContextManager[Span] = nullcontext(_Unrecorded())
_exporters: list["Exporter"] = []
"""The one that is in use, or none."""


def open_span(name: str, /, **attributes: Value) -> AbstractContextManager[Span]:
    """Return a span to work in; an exception that leaves it marks it as failed."""
    return _exporters[-1].open_span(name, attributes) if _exporters else _UNRECORDED


def get_ids() -> dict[str, str]:
    """Return ``trace_id`` and ``span_id`` of the current span; nothing if there is none."""
    return _exporters[-1].get_ids() if _exporters else {}


@contextmanager
def export_spans(service: str) -> Iterator[None]:
    """Export spans meanwhile, if the environment asks for it, as a service of that name unless it has one."""
    exporter = _exporter(service) if _asked_for(os.environ) else None
    if exporter is None:
        yield
        return
    _exporters.append(exporter)
    try:
        yield
    finally:
        _exporters.remove(exporter)
        exporter.close()


def _exporter(service: str) -> "Exporter | None":
    protocol = next(filter(None, map(os.environ.get, _PROTOCOLS)), _SPOKEN)
    if protocol != _SPOKEN:
        _log.warning("no traces, because protocol %s is not supported: use %s", protocol, _SPOKEN)
        return None
    try:
        from modelplane.telemetry import otlp  # noqa: PLC0415  heavy, and not always installed

        return otlp.Exporter(service)
    except ModuleNotFoundError as error:
        _log.warning("no traces, because %s is not installed: install the extra [otel]", error.name)
    except Exception as error:  # noqa: BLE001  whatever it is, the work goes on without traces
        _log.warning("no traces: %s", error)
    return None


def _asked_for(environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = [
        exporter.strip() for exporter in (environment.get("OTEL_TRACES_EXPORTER") or "otlp").split(",")
    ]
    return "otlp" in exporters and any(environment.get(name) for name in _ENDPOINTS)


def make_fields(**values: object) -> dict[str, dict[str, object]]:
    """Return the ``extra`` of a log call."""
    return {_FIELDS: values}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line: ``time``, ``level``, ``logger``, ``message``, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        given = getattr(record, _FIELDS, {})
        about: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        # The line's own fields come first, and override all others.
        return json.dumps({**line, **about, **get_ids(), **line}, default=str)
