"""Log of a long-running command."""

import logging
from collections.abc import Callable, Mapping

_CHATTY = ("httpx2", "httpcore2", "hpack")
"""Loggers that log every request, and that of HTTP/2's header compression, which logs credentials."""


def _json() -> logging.Formatter:
    from modelplane.telemetry.traces import JsonFormatter

    return JsonFormatter()


def _text() -> logging.Formatter:
    return logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")


FORMATS: Mapping[str, Callable[[], logging.Formatter]] = {"text": _text, "json": _json}
"""Log formats: plain text, or one JSON object a line."""


def log_to_stderr(*, debug: bool = False, format: str = "text") -> None:  # noqa: A002 - as logging has it
    """Log to standard error, one line each, with its time."""
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATS[format]())
    logging.basicConfig(level=logging.DEBUG if debug else logging.INFO, handlers=[handler])
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
