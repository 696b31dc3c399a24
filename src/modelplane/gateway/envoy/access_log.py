"""Access log of the fleet's listener: one JSON line for each request, a usage record.

The module says who asked and how many tokens were used, Envoy the rest. A line has no query, no header but
the request's id and no body: they may hold secrets. Every field that a client chooses has a limit, and its
control characters are escaped, so a record is one line. Configuration reference: envoy v1.40, "Access
logging".
"""

import json
from collections.abc import Mapping
from typing import Any

from modelplane.gateway.envoy.envoy_names import ENVOY, HTTP_FILTERS
from modelplane.gateway.route_table import Backend, Listener

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

OF_MODULE = ("requestId", "method", "path", "details")
"""Fields that Envoy knows and the module writes, as part of its record."""

_OF_CLUSTER = ("backend", "host", "backendModel")
"""Fields that a cluster's metadata has, as members of one text, because Envoy searches for each key."""

_NUMBERS = {"attempts", "status", "durationMs", "bytesReceived", "bytesSent"}
_MEMBERS = f"%METADATA(CLUSTER:{_BACKEND}:members)%"
_RECORD = "%FILTER_STATE(modelplane.record:PLAIN)%"


def _text(fields: Mapping[str, str]) -> str:
    """Return a line as text, which takes Envoy a third of the time that it takes to format JSON.

    Envoy escapes nothing in it: so what a client or a tenant chooses comes from the module and the metadata
    of the cluster, as members of a JSON object, each after a comma, or empty.
    """
    of_others = {*OF_MODULE, *_OF_CLUSTER}
    written = {name: operator for name, operator in fields.items() if name not in of_others}
    members = [
        f'"{name}":{operator}' if name in _NUMBERS else f'"{name}":"{operator}"'
        for name, operator in written.items()
    ]
    return f"{{{','.join(members)} {_MEMBERS}{_RECORD}}}\n"


OF_LEDGER = ("time", "service", "backend", "host", "backendModel", "status")
"""The fields that a ledger needs, beside those of the module."""


def build_access_log(listener: Listener, *, with_module: bool) -> list[dict[str, Any]]:
    """Return the access logs of a listener: one if it has a ``usage_log``, and that of the ledger."""
    if not listener.usage_log:
        return []
    has_record = _has_record(listener, with_module=with_module)
    logs = [_log(listener.usage_log, FIELDS, has_record=has_record)]
    if listener.ledger_log and has_record:
        logs.append(_log(listener.ledger_log, {name: FIELDS[name] for name in OF_LEDGER}, has_record=True))
    return logs


def _log(path: str, fields: Mapping[str, str], *, has_record: bool) -> dict[str, Any]:
    as_text = {"text_format_source": {"inline_string": _text(fields)}}
    format_ = as_text if has_record else {"json_format": dict(fields)}
    written = {"log_format": {**format_, "omit_empty_values": True}}
    if path == STANDARD_OUTPUT:
        return _logger("stdout", "stream.v3.StdoutAccessLog", written)
    return _logger("file", "file.v3.FileAccessLog", {"path": path, **written})


def _has_record(listener: Listener, *, with_module: bool) -> bool:
    return with_module and listener.front is not None


def _logger(name: str, type_: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": f"envoy.access_loggers.{name}",
        "typed_config": {"@type": f"{ENVOY}extensions.access_loggers.{type_}", **fields},
    }


def build_path_filter(listener: Listener, *, with_module: bool) -> list[dict[str, Any]]:
    """Return the filter that saves the client's path for the log; it comes before filters that may answer."""
    if not listener.usage_log or _has_record(listener, with_module=with_module):
        return []
    saved = {
        "object_key": _PATH,
        "factory_key": "envoy.string",
        "format_string": {"text_format_source": {"inline_string": "%PATH(NQ:PATH):1024%"}},
    }
    configured = {"@type": f"{HTTP_FILTERS}set_filter_state.v3.Config", "on_request_headers": [saved]}
    return [{"name": _PATH, "typed_config": configured}]


def build_backend_metadata(backend: Backend) -> dict[str, Any]:
    """Return the metadata of an Envoy cluster from which the log has the backend.

    Host and model are of now: a later change of the endpoint must not change what its requests have cost.
    A team chooses host and model, and Envoy escapes nothing in a line of text.
    """
    known = {"name": backend.name, "host": backend.host, "model": backend.model}
    values = {name: json.dumps(value) for name, value in known.items() if value}
    fields = dict(zip(known, _OF_CLUSTER, strict=True))
    members = "".join(f',"{fields[name]}":{value}' for name, value in values.items())
    return {_BACKEND: {name: value[1:-1] for name, value in values.items()} | {"members": members}}
