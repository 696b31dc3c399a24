"""How a backend is reached."""

from typing import Any

import pytest

from modelplane.gateway.envoy.clusters import build_cluster
from modelplane.gateway.route_table import Backend


def tls(san: str, host: str, **server_name: str) -> dict[str, Any]:
    return {
        **server_name,
        "common_tls_context": {
            "validation_context": {
                "trusted_ca": {"filename": "ca.pem"},
                "match_typed_subject_alt_names": [{"san_type": san, "matcher": {"exact": host}}],
            }
        },
    }


@pytest.mark.parametrize(
    ("host", "secure", "kind", "context"),
    [
        pytest.param("10.0.0.1", False, "STATIC", None, id="an address in the clear"),
        pytest.param("fd00::1", False, "STATIC", None, id="an IPv6 address in the clear"),
        pytest.param("engine.example", False, "STRICT_DNS", None, id="a host name in the clear"),
        pytest.param(
            "api.example",
            True,
            "STRICT_DNS",
            tls("DNS", "api.example", sni="api.example"),
            id="a host name by TLS",
        ),
        pytest.param(
            "10.0.0.1",
            True,
            "STATIC",
            tls("IP_ADDRESS", "10.0.0.1"),
            id="an address by TLS has no server name",
        ),
    ],
)
def test_reaching(host: str, secure: bool, kind: str, context: dict[str, Any] | None) -> None:
    backend = Backend("ml/a", ((host, 8000),), tls=secure)
    written = build_cluster("door/ml/a", backend)
    address = {"socket_address": {"address": host, "port_value": 8000}}
    assert (written["type"], written["load_assignment"]) == (
        kind,
        {"cluster_name": "door/ml/a", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]},
    )
    socket = written.get("transport_socket", {}).get("typed_config")
    assert socket == (
        context
        and {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"}
        | context
    )
