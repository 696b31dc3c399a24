"""The service account of a pod, for programs that read the API (Kubernetes, "Configure Service Accounts").

Its files are where every pod has them. The token is bound to the pod, so that the API server refuses it once
the pod is deleted.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from modelplane.host.file_system import write_private
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.pod_refusals import SERVICE_ACCOUNT
from modelplane.kubelet.volumes.mounts import Mount

_LIFETIME_S = 365 * 24 * 3600
"""Longer than a pod of this machine lives, because nothing renews the file."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """The API server of a node, as its pods reach it."""

    host: str
    port: int
    authority: bytes
    """Certificate of its authority, in PEM."""

    @classmethod
    def from_kubeconfig(cls, path: Path) -> "ApiServer":
        """Read the server of a kubeconfig with one cluster."""
        cluster = yaml.safe_load(path.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
        url = urlsplit(cluster["server"])
        authority = base64.b64decode(cluster["certificate-authority-data"])
        return cls(url.hostname or "", url.port or 443, authority)


@dataclass(frozen=True, slots=True)
class Account:
    """Environment and mounts of a container that acts as its pod's service account."""

    variables: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()


async def write_account(client: Client, server: ApiServer, pod: Object, folder: Path) -> Account:
    """Write the files of a pod's service account to a folder of this machine, and return their mount.

    Raises ``KubernetesError`` if the API server grants no token.
    """
    metadata = pod["metadata"]
    token = await client.create_token(
        pod["spec"].get("serviceAccountName", "default"),
        metadata["namespace"],
        _LIFETIME_S,
        bound_to={"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]},
    )
    files = {"token": token, "namespace": metadata["namespace"], "ca.crt": server.authority}
    await asyncio.to_thread(_write, folder, files)
    variables = {"KUBERNETES_SERVICE_HOST": server.host, "KUBERNETES_SERVICE_PORT": str(server.port)}
    return Account(variables, (Mount(folder, SERVICE_ACCOUNT, read_only=True),))


def _write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        write_private(folder / name, content)
