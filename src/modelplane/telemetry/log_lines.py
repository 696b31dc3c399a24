"""Log lines as JSON objects, for log collectors.

    log.info("...", extra=fields(kind="ModelReplica", namespace="a", name="b"))

The logging package reserves ``name`` and others, so an object's fields are passed together, as one.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from modelplane.telemetry import traces

_FIELDS = "fields"


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
        return json.dumps({**line, **about, **traces.get_ids(), **line}, default=str)
