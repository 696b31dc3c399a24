"""A backend as an Envoy ``Cluster``: its instances, its protocol, and the form of its requests."""

import ipaddress
from dataclasses import replace
from typing import Any

from modelplane.api.fields.requests.key_limits import RateLimitService
from modelplane.gateway.envoy import (
    certificate_files,
    endpoint_pickers,
    rate_limit_filter,
    rewrite,
    token_filters,
)
from modelplane.gateway.envoy.envoy_names import ENVOY
from modelplane.gateway.route_table import Backend, EndpointPicker, Listener

CA_BUNDLE = "ca.pem"
"""File, in Envoy's working directory, of the certificate authorities for external providers."""

BUFFER_BYTES = 64 * 1024
"""Data that Envoy holds for one side of a connection before it stops reading from the other."""

_CONNECT_TIMEOUT = "3s"
_KEEPALIVE_S = 30
_MANY = 100_000

# Engines close an idle connection after 5 s (uvicorn, llama.cpp); a request sent at that moment is lost.
_IDLE = {False: "4s", True: "60s"}

_BY_HOST_NAME = {
    # Each address is an instance of its own: of one with several, only the first would be checked.
    "type": "STRICT_DNS",
    "dns_lookup_family": "ALL",
    "respect_dns_ttl": True,
    "dns_refresh_rate": "30s",
    # A name that does not resolve must not delay the rest at start.
    "wait_for_warm_on_init": False,
}


# Over HTTP/1.1 each stream is a connection: the default of 1,024 would be a limit on users.
_CIRCUIT_BREAKERS = {
    "thresholds": [
        {
            "max_connections": _MANY,
            "max_pending_requests": _MANY,
            "max_requests": _MANY,
            "max_retries": 1000,
        }
    ]
}

# An engine's own 500 concerns one request; only an instance that does not answer is skipped.
_OUTLIERS = {
    "split_external_local_origin_errors": True,
    "consecutive_local_origin_failure": 3,
    "consecutive_gateway_failure": 5,
    "enforcing_consecutive_gateway_failure": 100,
    "enforcing_consecutive_5xx": 0,
    "enforcing_success_rate": 0,
    "enforcing_local_origin_success_rate": 0,
    "base_ejection_time": "5s",
    "max_ejection_time": "60s",
    "max_ejection_percent": 50,
}


def name_cluster(listener: Listener, backend: Backend) -> str:
    """Return the name of the cluster of a listener's backend."""
    return f"{listener.name}/{backend.name}"


def build_cluster(name: str, backend: Backend, *, has_identity: bool = False) -> dict[str, Any]:
    """Return the ``Cluster`` of a backend.

    Without an identity for mutual TLS, a backend that needs one has no instances.
    """
    if backend.server_name and not has_identity:
        backend = replace(backend, hosts=(), tls=False, server_name="")
    http: dict[str, Any] = {"http_protocol_options": {}}
    by_agreement = {"auto_config": {**http, "http2_protocol_options": {}}}
    return {
        "name": name,
        **_by_address(name, backend.hosts),
        **_transport_socket(backend),
        **endpoint_pickers.build_balancing(backend.picker),
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "connect_timeout": _CONNECT_TIMEOUT,
        "metadata": {
            "filter_metadata": rewrite.build_backend_metadata(backend)["filter_metadata"]
            | token_filters.build_backend_metadata(backend)
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{ENVOY}extensions.upstreams.http.v3.HttpProtocolOptions",
                "common_http_protocol_options": {"idle_timeout": _IDLE[backend.tls]},
                **(by_agreement if backend.tls else {"explicit_http_config": http}),
            }
        },
        "circuit_breakers": _CIRCUIT_BREAKERS,
        "outlier_detection": _OUTLIERS,
        "upstream_connection_options": {
            "tcp_keepalive": {
                "keepalive_probes": 3,
                "keepalive_time": _KEEPALIVE_S,
                "keepalive_interval": _KEEPALIVE_S,
            }
        },
    }


def build_rate_limit_service(service: RateLimitService) -> dict[str, Any]:
    """Return the ``Cluster`` of a rate limit service."""
    own = _grpc_server(rate_limit_filter.CLUSTER, ((service.host, service.port),), rate_limit_filter.TIMEOUT)
    return {**own, **({"transport_socket": _tls(service.host, ("h2",))} if service.tls else {})}


def build_endpoint_picker(listener: str, picker: EndpointPicker) -> dict[str, Any]:
    """Return the ``Cluster`` of an endpoint picker."""
    return _grpc_server(endpoint_pickers.name_cluster(listener, picker), picker.hosts, _CONNECT_TIMEOUT)


def _grpc_server(name: str, hosts: tuple[tuple[str, int], ...], connect_timeout: str) -> dict[str, Any]:
    http2 = {"http2_protocol_options": {"connection_keepalive": {"interval": "10s", "timeout": "3s"}}}
    return {
        "name": name,
        **_by_address(name, hosts),
        "connect_timeout": connect_timeout,
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{ENVOY}extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": http2,
            }
        },
    }


def _by_address(name: str, hosts: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    """Return the part of a ``Cluster`` with its instances, by address and port."""
    discovery = {"type": "STATIC"} if all(_is_address(host) for host, _ in hosts) else _BY_HOST_NAME
    endpoints = [
        {"endpoint": {"address": {"socket_address": {"address": address, "port_value": port}}}}
        for address, port in sorted(hosts)
    ]
    assignment = {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}
    return {**discovery, "load_assignment": assignment}


def _transport_socket(backend: Backend) -> dict[str, Any]:
    if backend.server_name:
        return {"transport_socket": certificate_files.build_transport_socket(backend.server_name)}
    return {"transport_socket": _tls(backend.hosts[0][0])} if backend.tls else {}


def _tls(host: str, protocols: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the transport socket that accepts only a certificate for a host."""
    address = _is_address(host)
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{ENVOY}extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            # RFC 6066 allows no literal address as a server name.
            **({} if address else {"sni": host}),
            "common_tls_context": {
                **({"alpn_protocols": list(protocols)} if protocols else {}),
                "validation_context": {
                    "trusted_ca": {"filename": CA_BUNDLE},
                    "match_typed_subject_alt_names": [
                        {"san_type": "IP_ADDRESS" if address else "DNS", "matcher": {"exact": host}}
                    ],
                },
            },
        },
    }


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
