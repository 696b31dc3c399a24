"""Which errors tell that a cluster does not answer, in the words of Go's packages."""

import pytest

from modelplane.compose.cluster.reachability import connection_error

GET = 'Get "https://192.0.2.10:6443/api/v1/namespaces/ml?timeout=32s": '


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            f"observe failed: cannot get object: {GET}dial tcp 192.0.2.10:6443: connect: connection refused",
            "dial tcp 192.0.2.10:6443: connect: connection refused",
            id="refused",
        ),
        pytest.param(
            f"create failed: cannot create object: {GET}context deadline exceeded",
            "https://192.0.2.10:6443: context deadline exceeded",
            id="no answer in time names the server",
        ),
        pytest.param(
            'Patch "https://east.example.com/apis/apps/v1": dial tcp: lookup east.example.com on '
            "10.96.0.10:53: read udp 10.244.0.7:41093->10.96.0.10:53: i/o timeout",
            "dial tcp: lookup east.example.com on 10.96.0.10:53: read udp 10.96.0.10:53: i/o timeout",
            id="the client's port is left out",
        ),
        pytest.param(
            f"{GET}tls: failed to verify certificate: x509: certificate has expired or is not yet valid: "
            "current time 2026-01-01T00:00:00Z is after 2025-12-31T00:00:00Z",
            "https://192.0.2.10:6443: tls: failed to verify certificate: x509: certificate has expired or is "
            "not yet valid: is after 2025-12-31T00:00:00Z",
            id="the time of the check is left out",
        ),
        pytest.param(
            "connect failed: cannot create new client: dial tcp 192.0.2.10:6443: i/o timeout",
            "dial tcp 192.0.2.10:6443: i/o timeout",
            id="without a request",
        ),
        pytest.param(
            "create failed: cannot create object: Internal error occurred: failed calling webhook "
            '"mutate.example.com": failed to call webhook: Post "https://hook.ns.svc/mutate?timeout=10s": '
            "dial tcp 10.96.1.2:443: connect: connection refused",
            "",
            id="a webhook that the server cannot reach is an answer of the server",
        ),
        pytest.param(
            "observe failed: cannot get object: conversion webhook for example.com/v1, Kind=X failed: Post "
            '"https://hook.ns.svc:443/convert": EOF',
            "",
            id="a conversion webhook that the server cannot reach is an answer of the server",
        ),
        pytest.param(f"{GET}context canceled", "", id="the provider was stopped"),
        pytest.param(
            f"{GET}stream error: stream ID 7; INTERNAL_ERROR; received from peer",
            "",
            id="the server ended one request",
        ),
        pytest.param("observe failed: external resource does not exist", "", id="there is none"),
        pytest.param(
            'create failed: cannot create object: deployments.apps "x" is forbidden', "", id="forbidden"
        ),
        pytest.param(
            "connect failed: client rate limiter Wait returned an error: context deadline exceeded",
            "",
            id="the provider is too busy to ask",
        ),
        pytest.param("", "", id="nothing"),
    ],
)
def test_only_an_error_of_the_connection_counts(text: str, error: str) -> None:
    assert connection_error(text) == (error or None)
