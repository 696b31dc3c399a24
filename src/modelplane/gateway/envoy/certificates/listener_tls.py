"""TLS of a listener: a filter chain, and one file with each certificate.

A certificate is in a file of its own (``sds``). The files hold private keys.
"""

import json
from collections.abc import Iterator
from typing import Any

from modelplane.api.inference_gateway import TLSVersion
from modelplane.gateway.envoy.certificates import sds
from modelplane.gateway.envoy.file_names import TLS
from modelplane.gateway.envoy.type_urls import ENVOY
from modelplane.gateway.route_table import Listener
from modelplane.gateway.tls import Certificate, Tls

_VERSIONS = {TLSVersion.V1_2: "TLSv1_2", TLSVersion.V1_3: "TLSv1_3"}

# A client that never completes the handshake costs a connection for that long.
_HANDSHAKE_TIMEOUT = "15s"

# Accepts connections and closes them, so that a health check of the port does not restart Envoy.
_CLOSED = {
    "filters": [
        {
            "name": "envoy.filters.network.direct_response",
            "typed_config": {"@type": f"{ENVOY}extensions.filters.network.direct_response.v3.Config"},
        }
    ]
}


def name_certificate_file(name: str) -> str:
    """Return the path of a certificate's file."""
    return f"{TLS}{name}.json"


def add_tls(chain: dict[str, Any], tls: Tls | None) -> dict[str, Any]:
    """Return a filter chain that serves TLS only; without a certificate, one that closes each connection."""
    if tls is None:
        return chain
    if not tls.certificates:
        return _CLOSED
    context = {
        "@type": f"{sds.TYPES}DownstreamTlsContext",
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_params": {"tls_minimum_protocol_version": _VERSIONS[tls.minimum_version]},
            "tls_certificate_sds_secret_configs": [
                sds.build_sds_config(certificate.name, name_certificate_file(certificate.name))
                for certificate in tls.certificates
            ],
        },
    }
    return chain | {
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": context},
        "transport_socket_connect_timeout": _HANDSHAKE_TIMEOUT,
    }


def build_secrets(listeners: tuple[Listener, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path of each certificate's file, and the ``Secret`` in it."""
    for certificate in (
        served for listener in listeners if listener.tls for served in listener.tls.certificates
    ):
        yield (
            name_certificate_file(certificate.name),
            sds.build_secret(certificate.name, sds.build_key_pair(certificate.chain, certificate.key)),
        )


def parse_certificate(content: str) -> Certificate | None:
    """Return the certificate in a file of it; None if the file is damaged or empty."""
    try:
        [secret] = json.loads(content)["resources"]
        return Certificate(str(secret["name"]), *sds.read_key_pair(secret))
    except (KeyError, TypeError, ValueError):
        return None
