"""The proxy's own replies: errors in the form that clients of the OpenAI API parse.

The form is ``{"error": {"message", "type", "param", "code"}}`` (OpenAI API
reference, "Error codes"); an SDK shows the message to its user.
"""

import json
from typing import Any

NOT_FOUND = (
    "no route leads to this path: paths begin with /NAMESPACE/SERVICE/: "
    "see kubectl get modelservices --all-namespaces"
)

_RETRY_AFTER_S = 5


def not_found() -> dict[str, Any]:
    """Return the part of an Envoy route that answers 404."""
    return _direct(404, NOT_FOUND, "invalid_request_error", "route_not_found", {})


def unavailable(message: str) -> dict[str, Any]:
    """Return the part of an Envoy route that answers 503 and asks the client to try again."""
    later = {"retry-after": str(_RETRY_AFTER_S)}
    return _direct(503, message, "server_error", "no_ready_endpoint", later)


def ambiguous_path() -> dict[str, Any]:
    """Return the part of an Envoy route that answers 400: the path has more than one reading."""
    message = (
        'the path has a segment "." or "..", a backslash, or an encoded slash, backslash or dot '
        "(%2F, %5C, %2E), which servers read differently: write the path without"
    )
    return _direct(400, message, "invalid_request_error", "ambiguous_path", {})


def loop(hops: int) -> dict[str, Any]:
    """Return the part of an Envoy route that answers 508: the request runs in a circle."""
    message = (
        f"the request has passed {hops} gateways: a ModelEndpoint leads back to a gateway: correct its url: "
        "see kubectl get modelendpoints"
    )
    return _direct(508, message, "invalid_request_error", "loop_detected", {})


def own_errors() -> dict[str, Any]:
    """Return the ``LocalReplyConfig`` for Envoy's own errors: no connection, bad request.

    Only replies with a response flag are rewritten; those of ``not_found`` and ``unavailable`` have none.
    """
    flagged: dict[str, Any] = {"response_flag_filter": {}}
    failed = {
        "status_code_filter": {
            "comparison": {
                "op": "GE",
                "value": {"default_value": 500, "runtime_key": "modelplane.server_error"},
            }
        }
    }
    return {
        "mappers": [
            _mapper({"and_filter": {"filters": [flagged, failed]}}, "server_error"),
            _mapper(flagged, "invalid_request_error"),
        ]
    }


def _mapper(condition: dict[str, Any], kind: str) -> dict[str, Any]:
    error = _error("%LOCAL_REPLY_BODY%", kind, "%RESPONSE_CODE_DETAILS%")
    return {"filter": condition, "body_format_override": {"json_format": error}}


def _direct(status: int, message: str, kind: str, code: str, headers: dict[str, str]) -> dict[str, Any]:
    body = json.dumps(_error(message, kind, code))
    return {
        "direct_response": {"status": status, "body": {"inline_string": body}},
        "response_headers_to_add": [
            {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
            for key, value in {"content-type": "application/json", **headers}.items()
        ],
    }


def _error(message: str, kind: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
