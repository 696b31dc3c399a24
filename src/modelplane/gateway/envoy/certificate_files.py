"""Certificates of Envoy in files of their own (SDS), which it reads again when they change.

A new one reaches no listener and no cluster, so it ends no stream. If Envoy rejects it, it keeps the former.
Some of the files hold private keys.

Listeners serve the certificates of the platform. Mutual TLS to the gateways of clusters has one identity for
all of them, so that its files do not grow with the number of clusters.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api.inference_gateway import TLSVersion
from modelplane.gateway.envoy.envoy_names import ENVOY, MUTUAL_TLS, TLS
from modelplane.gateway.mutual_tls import Identity, Pair
from modelplane.gateway.route_table import Certificate, Listener, Tls

TYPES = f"{ENVOY}extensions.transport_sockets.tls.v3."
_PARTS = ("certificate_chain", "private_key")
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

IDENTITY = f"{MUTUAL_TLS}gateway-identity.json"
AUTHORITIES = f"{MUTUAL_TLS}cluster-authorities.json"


def build_sds_config(name: str, path: str) -> dict[str, Any]:
    """Return the ``SdsSecretConfig`` of a secret in a file."""
    source = {"resource_api_version": "V3", "path_config_source": {"path": f"./{path}"}}
    return {"name": name, "sds_config": source}


def build_secret(name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ``Secret``."""
    return {"@type": f"{TYPES}Secret", "name": name, **content}


def build_key_pair(chain: str, key: str) -> dict[str, Any]:
    """Return the content of a secret with a certificate and its private key, in PEM."""
    pair = zip(_PARTS, (chain, key), strict=True)
    return {"tls_certificate": {part: {"inline_string": pem} for part, pem in pair}}


def read_key_pair(found: Mapping[str, Any]) -> tuple[str, str]:
    """Return the certificate and the private key of a secret. Raises ``KeyError`` or ``TypeError``."""
    pair = found["tls_certificate"]
    chain, key = (str(pair[part]["inline_string"]) for part in _PARTS)
    return chain, key


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
        "@type": f"{TYPES}DownstreamTlsContext",
        "common_tls_context": {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_params": {"tls_minimum_protocol_version": _VERSIONS[tls.minimum_version]},
            "tls_certificate_sds_secret_configs": [
                build_sds_config(certificate.name, name_certificate_file(certificate.name))
                for certificate in tls.certificates
            ],
        },
    }
    return chain | {
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": context},
        "transport_socket_connect_timeout": _HANDSHAKE_TIMEOUT,
    }


def build_listener_secrets(listeners: tuple[Listener, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path of each certificate's file, and the ``Secret`` in it."""
    for certificate in (
        served for listener in listeners if listener.tls for served in listener.tls.certificates
    ):
        yield (
            name_certificate_file(certificate.name),
            build_secret(certificate.name, build_key_pair(certificate.chain, certificate.key)),
        )


def parse_certificate(content: str) -> Certificate | None:
    """Return the certificate in a file of it; None if the file is damaged or empty."""
    try:
        [secret] = json.loads(content)["resources"]
        return Certificate(str(secret["name"]), *read_key_pair(secret))
    except (KeyError, TypeError, ValueError):
        return None


def build_transport_socket(server_name: str) -> dict[str, Any]:
    """Return the TLS of a backend that must have this name, and to which the gateway shows its identity."""
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{TYPES}UpstreamTlsContext",
            "sni": server_name,
            "common_tls_context": {
                # In TLS 1.3 a refused certificate ends the connection only after the request was sent on it.
                "tls_params": {f"tls_{end}_protocol_version": "TLSv1_2" for end in ("minimum", "maximum")},
                "tls_certificate_sds_secret_configs": [build_sds_config(_name(IDENTITY), IDENTITY)],
                "combined_validation_context": {
                    "default_validation_context": {
                        "match_typed_subject_alt_names": [
                            {"san_type": "DNS", "matcher": {"exact": server_name}}
                        ]
                    },
                    "validation_context_sds_secret_config": build_sds_config(_name(AUTHORITIES), AUTHORITIES),
                },
            },
        },
    }


def _name(path: str) -> str:
    return path.removeprefix(MUTUAL_TLS).removesuffix(".json")


def build_identity_secrets(identity: Identity | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path of each file of an identity, and the ``Secret`` in it."""
    if identity is None:
        return
    contents = {
        IDENTITY: build_key_pair(identity.certificate.chain, identity.certificate.key),
        AUTHORITIES: {"validation_context": {"trusted_ca": {"inline_string": identity.authorities}}},
    }
    for path, content in contents.items():
        yield path, build_secret(_name(path), content)


def parse_identity(identity_file: str, authorities_file: str) -> Identity | None:
    """Return the identity in the content of its files; None if one is damaged or empty."""
    try:
        [identity], [others] = (
            json.loads(content)["resources"] for content in (identity_file, authorities_file)
        )
        return Identity(
            Pair(*read_key_pair(identity)),
            str(others["validation_context"]["trusted_ca"]["inline_string"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
