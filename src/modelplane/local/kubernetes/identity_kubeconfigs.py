"""Kubeconfigs for the identities of a local fleet, certificates included.

The file alone grants the identity, and it can be moved without its certificates (Kubernetes, "Organizing
Cluster Access Using kubeconfig Files").
"""

import base64
from dataclasses import dataclass
from pathlib import Path

import yaml

from modelplane.host.private_files import write_private
from modelplane.local.kubernetes.certificate_files import Pki


@dataclass(frozen=True, slots=True)
class Access:
    """One identity at the API server on a port of 127.0.0.1."""

    context: str
    """Its name in the kubeconfig, and its API server."""
    pki: Pki
    identity: str
    port: int


def build_kubeconfig(*accesses: Access) -> str:
    """Return a kubeconfig with a context for each access; the first one is current."""
    contexts = [{"cluster": access.context, "user": access.context} for access in accesses]
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": access.context, "cluster": _cluster(access)} for access in accesses],
            "users": [{"name": access.context, "user": _user(access)} for access in accesses],
            "contexts": [{"name": context["user"], "context": context} for context in contexts],
            "current-context": accesses[0].context,
        },
        sort_keys=False,
    )


def _cluster(access: Access) -> dict[str, str]:
    return {
        "server": f"https://127.0.0.1:{access.port}",
        "certificate-authority-data": _embedded(access.pki.authority),
    }


def _user(access: Access) -> dict[str, str]:
    return {
        "client-certificate-data": _embedded(access.pki.find_certificate(access.identity)),
        "client-key-data": _embedded(access.pki.find_key(access.identity)),
    }


def ensure(path: Path, content: str) -> None:
    """Write a kubeconfig if its content differs, so its modification time is that of a change."""
    if not path.exists() or path.read_text() != content:
        write_private(path, content)


def _embedded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
