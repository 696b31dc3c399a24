"""The proxy's own replies: errors in the form that clients of the OpenAI API parse.

The form is ``{"error": {"message", "type", "param", "code"}}`` (OpenAI API reference, "Error codes"); an SDK
shows the message to its user. The replies 401, 403 and 429, and their ``Retry-After``, are the module's:
``gateway-module/src/errors.rs``.
"""

import json
from typing import Any

from modelplane.gateway.envoy import rate_limit_filter, retries
from modelplane.gateway.envoy.envoy_names import ENVOY
from modelplane.gateway.envoy.module_filters import ERRORS
from modelplane.gateway.envoy.upstream_addresses import DENIED, DENIED_TO_OTHERS
from modelplane.gateway.route_table import Listener

NOT_FOUND = (
    "no route matches this path: paths begin with /NAMESPACE/SERVICE/: run kubectl get modelservices "
    "--all-namespaces"
)

_RETRY_AFTER = {"retry-after": "5"}


def build_not_found() -> dict[str, Any]:
    """Return the part of an Envoy route that answers 404."""
    return _direct(404, NOT_FOUND, "invalid_request_error", "route_not_found", {})


def build_unavailable(message: str) -> dict[str, Any]:
    """Return the part of an Envoy route that answers 503 and asks the client to try again.

    The message is ``Route.unavailable``, from ``compose/service/model_service.py`` for a service without
    endpoints, and from ``gateway/credentials.py`` for one whose credentials are missing.
    """
    return _direct(503, message, "server_error", "no_ready_endpoint", _RETRY_AFTER)


def build_ambiguous_path() -> dict[str, Any]:
    """Return the part of an Envoy route that answers 400: the path has more than one reading."""
    message = (
        'the path has a segment "." or "..", a backslash, or an encoded slash, backslash or dot (%2F, %5C, '
        "%2E), which servers interpret differently: remove it from the path"
    )
    return _direct(400, message, "invalid_request_error", "ambiguous_path", {})


def build_loop(hops: int) -> dict[str, Any]:
    """Return the part of an Envoy route that answers 508: the request runs in a circle."""
    message = (
        f"the request has passed {hops} gateways, because a ModelEndpoint leads back to a gateway: correct "
        "the url: run kubectl get modelendpoints"
    )
    return _direct(508, message, "invalid_request_error", "loop_detected", {})


def build_own_errors(listener: Listener) -> dict[str, Any]:
    """Return the ``LocalReplyConfig`` for Envoy's own errors: no connection, bad request, overload.

    Replies of routes, such as ``build_not_found``, and of the module have the form already.
    """
    own = _expression(
        f"response.code_details != 'direct_response' && !response.code_details.startsWith('{ERRORS}')"
    )
    failed = {
        "status_code_filter": {
            "comparison": {
                "op": "GE",
                "value": {"default_value": 500, "runtime_key": "modelplane.server_error"},
            }
        }
    }
    message, code = "%LOCAL_REPLY_BODY%", "%RESPONSE_CODE_DETAILS%"
    return {
        "mappers": [
            _overloaded(),
            _destination_refused(),
            *([] if rate_limit_filter.find_service(listener) is None else [_not_counted()]),
            *([] if listener.front else [_broken_again()]),
            _reply({"and_filter": {"filters": [own, failed]}}, message, "server_error", code),
            _reply(own, message, "invalid_request_error", code),
        ]
    }


def _overloaded() -> dict[str, Any]:
    message = "the gateway is short of memory and accepts no requests: try again later"
    later = {"status_code": 503, "headers_to_add": _LATER}
    return _reply(_details("== 'overload'"), message, "server_error", "overloaded", **later)


def _destination_refused() -> dict[str, Any]:
    message = (
        "the host of this ModelEndpoint's url resolves to an address that the gateway is not allowed to send "
        "requests to: use another host, or ask the platform team to allow the address in the InferenceGateway"
    )
    denied = ", ".join(f"'rbac_access_denied_matched_policy[{name}]'" for name in (DENIED, DENIED_TO_OTHERS))
    return _reply(_details(f"in [{denied}]"), message, "invalid_request_error", "destination_refused")


def _broken_again() -> dict[str, Any]:
    """Return the reply of a cluster's gateway that has no other replica asked."""
    message = (
        "a model server closed the connection while processing this request. The gateway does not retry "
        "the request, because it could crash another server: run kubectl get modelreplicas"
    )
    # The connection ended, or the server ended the stream: it was there, and had the request.
    was_read = {"response_flag_filter": {"flags": ["UC", "UR"]}}
    condition = {"and_filter": {"filters": [was_read, _expression(retries.SENT_BEFORE)]}}
    return _reply(condition, message, "server_error", "model_server_failed", status_code=502)


def _not_counted() -> dict[str, Any]:
    message = (
        "the gateway cannot reach its rate limit service, which counts the requests of this API key: try "
        "again later"
    )
    failed = _details(f"== '{rate_limit_filter.FAILED}'")
    return _reply(failed, message, "server_error", "rate_limit_unavailable", headers_to_add=_LATER)


def _details(comparison: str) -> dict[str, Any]:
    """Return the filter of replies with certain response code details."""
    return _expression(f"response.code_details {comparison}")


def _expression(expression: str) -> dict[str, Any]:
    return {
        "extension_filter": {
            "name": "envoy.access_loggers.extension_filters.cel",
            "typed_config": {
                "@type": f"{ENVOY}extensions.access_loggers.filters.cel.v3.ExpressionFilter",
                "expression": expression,
            },
        }
    }


def _reply(condition: dict[str, Any], message: str, kind: str, code: str, **more: Any) -> dict[str, Any]:
    return {"filter": condition, **more, "body_format_override": {"json_format": _error(message, kind, code)}}


def _direct(status: int, message: str, kind: str, code: str, headers: dict[str, str]) -> dict[str, Any]:
    body = json.dumps(_error(message, kind, code))
    return {
        "direct_response": {"status": status, "body": {"inline_string": body}},
        "response_headers_to_add": _headers({"content-type": "application/json", **headers}),
    }


def _headers(values: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
        for key, value in values.items()
    ]


def _error(message: str, kind: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_LATER = _headers(_RETRY_AFTER)
