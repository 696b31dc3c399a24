"""Kubeconfigs for the identities of a local fleet, certificates included.

Whoever holds the file is that identity: there is nothing else to guard, and it
can be moved without its certificates (Kubernetes, "Organizing Cluster Access
Using kubeconfig Files").
"""

import base64
from pathlib import Path

import yaml

from modelplane.local.certificate_files import Pki
from modelplane.local.home import write_private

CONTEXT = "modelplane"


def kubeconfig(pki: Pki, identity: str, port: int) -> str:
    """Return the kubeconfig of one identity for the API server on a port of 127.0.0.1."""
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority-data": _embedded(pki.authority),
    }
    user = {
        "client-certificate-data": _embedded(pki.certificate(identity)),
        "client-key-data": _embedded(pki.key(identity)),
    }
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": identity, "user": user}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": identity}}],
            "current-context": CONTEXT,
        },
        sort_keys=False,
    )


def ensure(path: Path, content: str) -> None:
    """Write a kubeconfig unless it is there already, so that its time of change tells something."""
    if not path.exists() or path.read_text() != content:
        write_private(path, content)


def _embedded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
