"""Mutual TLS to the gateways of clusters: one identity for all of them, in files of its own (``sds``).

The files do not grow with the number of clusters. One of them holds a private key.
"""

import json
from collections.abc import Iterator
from typing import Any

from modelplane.gateway.envoy.certificates import sds
from modelplane.gateway.envoy.file_names import MUTUAL_TLS
from modelplane.gateway.mutual_tls import Identity, Pair

IDENTITY = f"{MUTUAL_TLS}gateway-identity.json"
AUTHORITIES = f"{MUTUAL_TLS}cluster-authorities.json"


def build_transport_socket(server_name: str) -> dict[str, Any]:
    """Return the TLS of a backend that must have this name, and to which the gateway shows its identity."""
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{sds.TYPES}UpstreamTlsContext",
            "sni": server_name,
            "common_tls_context": {
                # In TLS 1.3 a refused certificate ends the connection only after the request was sent on it.
                "tls_params": {f"tls_{end}_protocol_version": "TLSv1_2" for end in ("minimum", "maximum")},
                "tls_certificate_sds_secret_configs": [sds.build_sds_config(_name(IDENTITY), IDENTITY)],
                "combined_validation_context": {
                    "default_validation_context": {
                        "match_typed_subject_alt_names": [
                            {"san_type": "DNS", "matcher": {"exact": server_name}}
                        ]
                    },
                    "validation_context_sds_secret_config": sds.build_sds_config(
                        _name(AUTHORITIES), AUTHORITIES
                    ),
                },
            },
        },
    }


def _name(path: str) -> str:
    return path.removeprefix(MUTUAL_TLS).removesuffix(".json")


def build_secrets(identity: Identity | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path of each file of an identity, and the ``Secret`` in it."""
    if identity is None:
        return
    contents = {
        IDENTITY: sds.build_key_pair(identity.certificate.chain, identity.certificate.key),
        AUTHORITIES: {"validation_context": {"trusted_ca": {"inline_string": identity.authorities}}},
    }
    for path, content in contents.items():
        yield path, sds.build_secret(_name(path), content)


def parse_identity(identity_file: str, authorities_file: str) -> Identity | None:
    """Return the identity in the content of its files; None if one is damaged or empty."""
    try:
        [identity], [others] = (
            json.loads(content)["resources"] for content in (identity_file, authorities_file)
        )
        return Identity(
            Pair(*sds.read_key_pair(identity)),
            str(others["validation_context"]["trusted_ca"]["inline_string"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
