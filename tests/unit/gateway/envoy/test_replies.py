"""Errors are what a client of the OpenAI API expects."""

import json

import pytest

from modelplane.gateway.envoy.replies import NOT_FOUND, build_not_found, build_unavailable


@pytest.mark.parametrize(
    ("reply", "status", "error", "headers"),
    [
        pytest.param(
            build_not_found(),
            404,
            {"message": NOT_FOUND, "type": "invalid_request_error", "param": None, "code": "route_not_found"},
            {"content-type": "application/json"},
            id="a path without a route",
        ),
        pytest.param(
            build_unavailable('no "pod"'),
            503,
            {"message": 'no "pod"', "type": "server_error", "param": None, "code": "no_ready_endpoint"},
            {"content-type": "application/json", "retry-after": "5"},
            id="a route without a backend",
        ),
    ],
)
def test_reply(
    reply: dict[str, object], status: int, error: dict[str, object], headers: dict[str, str]
) -> None:
    assert reply == {
        "direct_response": {"status": status, "body": {"inline_string": json.dumps({"error": error})}},
        "response_headers_to_add": [
            {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
            for key, value in headers.items()
        ],
    }
