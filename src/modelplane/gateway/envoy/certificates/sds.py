"""Secrets in files of their own (SDS), which Envoy reads again when they change.

A new one reaches no listener and no cluster, so it ends no stream. If Envoy rejects it, it keeps the former.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.gateway.envoy.type_urls import ENVOY

TYPES = f"{ENVOY}extensions.transport_sockets.tls.v3."

_PARTS = ("certificate_chain", "private_key")


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
