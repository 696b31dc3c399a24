"""Access log of the fleet's listener: one JSON line for each request, a usage record.

The module says who asked and how many tokens were used, Envoy the rest. A line has no query, no header but
the request's id and no body: they may hold secrets. Every field that a client chooses has a limit, and Envoy
escapes its control characters, so a record is one line. Configuration reference: envoy v1.40, "Access
logging".
"""

from collections.abc import Mapping
from typing import Any

from modelplane.gateway.envoy.type_urls import ENVOY, HTTP_FILTERS
from modelplane.gateway.table import Backend, Listener

STANDARD_OUTPUT = "/dev/stdout"
"""The ``usage_log`` of an Envoy whose output is collected."""

_PATH = "modelplane.usage.path"
_BACKEND = "modelplane.usage"


FIELDS = {
    "time": "%START_TIME%",
    "requestId": "%REQ(x-request-id):128%",
    "clientAddress": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "method": "%REQ(:method):16%",
    "path": f"%FILTER_STATE({_PATH}:PLAIN)%",
    "service": "%ROUTE_NAME%",
    "backend": f"%METADATA(CLUSTER:{_BACKEND}:name)%",
    "host": f"%METADATA(CLUSTER:{_BACKEND}:host)%",
    "backendModel": f"%METADATA(CLUSTER:{_BACKEND}:model)%",
    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    "status": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "durationMs": "%DURATION%",
    "bytesReceived": "%BYTES_RECEIVED%",
    "bytesSent": "%BYTES_SENT%",
}
"""Each field of a record that Envoy knows, with its command operator. A field without a value is left out."""

OF_MODULE = {"record": "%FILTER_STATE(modelplane.record:PLAIN)%"}
"""Record of the module: one text, because each member of its own would take Envoy a tenth of a request."""

OF_LEDGER = ("time", "requestId", "service", "backend", "host", "backendModel", "status", "record")
"""The fields that a ledger needs."""


def access_log(listener: Listener, *, with_module: bool) -> list[dict[str, Any]]:
    """Return the access logs of a listener: one if it has a ``usage_log``, and that of the ledger."""
    if not listener.usage_log:
        return []
    fields = FIELDS | OF_MODULE if with_module else FIELDS
    logs = [_log(listener.usage_log, fields)]
    if listener.ledger_log and with_module:
        logs.append(_log(listener.ledger_log, {name: fields[name] for name in OF_LEDGER}))
    return logs


def _log(path: str, fields: Mapping[str, str]) -> dict[str, Any]:
    written = {"log_format": {"json_format": dict(fields), "omit_empty_values": True}}
    if path == STANDARD_OUTPUT:
        return _logger("stdout", "stream.v3.StdoutAccessLog", written)
    return _logger("file", "file.v3.FileAccessLog", {"path": path, **written})


def _logger(name: str, type_: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": f"envoy.access_loggers.{name}",
        "typed_config": {"@type": f"{ENVOY}extensions.access_loggers.{type_}", **fields},
    }


def before_all(listener: Listener) -> list[dict[str, Any]]:
    """Return the filter that saves the client's path for the log; it comes before filters that may answer."""
    if not listener.usage_log:
        return []
    saved = {
        "object_key": _PATH,
        "factory_key": "envoy.string",
        "format_string": {"text_format_source": {"inline_string": "%PATH(NQ:PATH):1024%"}},
    }
    configured = {"@type": f"{HTTP_FILTERS}set_filter_state.v3.Config", "on_request_headers": [saved]}
    return [{"name": _PATH, "typed_config": configured}]


def of_backend(backend: Backend) -> dict[str, Any]:
    """Return the metadata of an Envoy cluster from which the log has the backend.

    Host and model are of now: a later change of the endpoint must not change what its requests have cost.
    """
    known = (("name", backend.name), ("host", backend.host), ("model", backend.model))
    return {_BACKEND: {name: value for name, value in known if value}}
