"""Envoy's configuration for the rate limit service, and where there is none."""

import json
from typing import Any

import pytest

from modelplane.api.fields.requests.key_limits import RateLimitService
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import CLUSTERS, LISTENERS, WITH_MODULE
from modelplane.gateway.module_files.keys import KeyFile
from modelplane.gateway.route_table import Backend, Front, Listener, Route, Table

SERVICE = RateLimitService(host="ratelimit.example", port=9090, domain="fleet", fail_closed=False, tls=True)
ROUTE = Route("ml/qwen", "/ml/qwen/", (Backend("ml/own", (("127.0.0.1", 9),)),))


def written(front: Front | None) -> dict[str, Any]:
    listener = Listener("front-door", "127.0.0.1", 8800, (ROUTE,), front=front)
    return {path: json.loads(text) for path, text in render_files(Table((listener,))).items()}


def filters(file: dict[str, Any]) -> list[dict[str, Any]]:
    manager = file["resources"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    return list(manager["http_filters"])


def counted(name: str, *path: str) -> dict[str, Any]:
    def metadata(*path: str) -> dict[str, Any]:
        return {"key": "modelplane.limits", "path": [{"key": each} for each in path]}

    action = {"descriptor_key": name, "metadata_key": metadata(*path), "source": "DYNAMIC"}
    return {
        "actions": [{"metadata": action}],
        "limit": {"dynamic_metadata": {"metadata_key": metadata(name)}},
    }


def test_the_filter_comes_after_the_module_and_asks_with_the_limits_of_the_request() -> None:
    found = filters(written(Front(keys=KeyFile(), rate_limits=SERVICE))[WITH_MODULE])
    names = ["modelplane.front", "envoy.filters.http.ratelimit", "envoy.filters.http.router"]
    assert [each["name"] for each in found] == names
    assert json.loads(found[0]["typed_config"]["filter_config"]["value"])["globalLimits"] is True
    tokens = {
        "hits_addend": {"format": "%DYNAMIC_METADATA(modelplane.limits:tokens)%"},
        "apply_on_stream_done": True,
    }
    assert found[1]["typed_config"] == {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
        "domain": "fleet",
        "rate_limit_service": {
            "grpc_service": {"envoy_grpc": {"cluster_name": "rate-limit-service"}},
            "transport_api_version": "V3",
        },
        "timeout": "0.5s",
        "failure_mode_deny": False,
        "status_on_error": {"code": "ServiceUnavailable"},
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "disable_x_envoy_ratelimited_header": True,
        "rate_limits": [
            counted("key_requests", "key_requests", "id"),
            {**counted("key_tokens", "key_tokens", "id"), "hits_addend": {"number": 0}},
            {**counted("key_tokens", "charge", "key_tokens"), **tokens},
            counted("namespace_requests", "namespace_requests", "id"),
            {**counted("namespace_tokens", "namespace_tokens", "id"), "hits_addend": {"number": 0}},
            {**counted("namespace_tokens", "charge", "namespace_tokens"), **tokens},
        ],
    }


def test_the_service_is_a_cluster_of_grpc_with_its_own_name_in_the_certificate() -> None:
    clusters = written(Front(keys=KeyFile(), rate_limits=SERVICE))[CLUSTERS]["resources"]
    [found] = [each for each in clusters if each["name"] == "rate-limit-service"]
    assert found["type"] == "STRICT_DNS"
    [instances] = found["load_assignment"]["endpoints"]
    [instance] = instances["lb_endpoints"]
    assert instance["endpoint"]["address"]["socket_address"] == {
        "address": "ratelimit.example",
        "port_value": 9090,
    }
    tls = found["transport_socket"]["typed_config"]
    assert (tls["sni"], tls["common_tls_context"]["alpn_protocols"]) == ("ratelimit.example", ["h2"])
    [protocol] = found["typed_extension_protocol_options"].values()
    assert "http2_protocol_options" in protocol["explicit_http_config"]


@pytest.mark.parametrize(
    "front",
    [
        pytest.param(None, id="a listener for gateways"),
        pytest.param(Front(keys=KeyFile()), id="no service"),
        pytest.param(Front(rate_limits=SERVICE), id="no keys"),
    ],
)
def test_without_a_service_or_keys_nothing_of_it_is_in_the_configuration(front: Front | None) -> None:
    content = json.dumps(written(front))
    assert "ratelimit" not in content
    assert "rate-limit-service" not in content
    assert "globalLimits" not in content


def test_without_the_module_there_is_no_filter() -> None:
    content = written(Front(keys=KeyFile(), rate_limits=SERVICE))[LISTENERS]
    assert content["resources"] == []
