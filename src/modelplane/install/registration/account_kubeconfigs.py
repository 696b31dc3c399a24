"""Kubeconfigs for the control plane: the address of a cluster with a token of an account of ours.

The user's kubeconfig gives only the address and the authority of the API server. Its credential stays where
it is.
"""

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.cluster.cluster_kubeconfig import subject_of
from modelplane.kube import errors, kubeconfig_secret
from modelplane.kube.client import Client
from modelplane.kube.kubeconfig_secret import Claims, decode_claims
from modelplane.kube.resources import NAMESPACES, Object
from modelplane.user_error import UserError

KEY: Final = "kubeconfig"
"""Key of a kubeconfig in its Secret."""

_CLUSTER_NAME: Final = "cluster"
_USER: Final = "modelplane"
_AUTHORITY_FILE: Final = "certificate-authority"
_INHERITED: Final = (
    "server",
    "certificate-authority-data",
    "proxy-url",
    "tls-server-name",
    "insecure-skip-tls-verify",
)


@dataclass(frozen=True, slots=True)
class Address:
    """An API server, with how to verify it: the cluster of a kubeconfig."""

    fields: Mapping[str, Any]
    where: str
    """The file, for messages."""

    @classmethod
    def from_file(cls, path: Path, context: str) -> "Address":
        """Read the cluster of a context, or of the current one. Raises ``UserError``."""
        try:
            content = yaml.load(path.read_bytes(), kubeconfig_secret.LOADER)  # noqa: S506  a safe loader
            chosen = context or content["current-context"]
            [used] = [entry["context"] for entry in content["contexts"] if entry["name"] == chosen]
            [cluster] = [
                entry["cluster"] for entry in content["clusters"] if entry["name"] == used["cluster"]
            ]
            fields = {key: cluster[key] for key in _INHERITED if cluster.get(key)}
            if named := cluster.get(_AUTHORITY_FILE):
                authority = (path.parent / named).read_bytes()
                fields.setdefault("certificate-authority-data", base64.b64encode(authority).decode())
        except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f'cannot read the cluster in kubeconfig "{path}": select another one with --kubeconfig or '
                "--context"
            ) from error
        return cls(fields, f'kubeconfig "{path}"')

    def build_kubeconfig(self, token: str) -> str:
        """Return a kubeconfig with a token. Raises ``UserError`` if the controllers would not accept it."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": _CLUSTER_NAME,
            "clusters": [{"name": _CLUSTER_NAME, "cluster": dict(self.fields)}],
            "contexts": [{"name": _CLUSTER_NAME, "context": {"cluster": _CLUSTER_NAME, "user": _USER}}],
            "users": [{"name": _USER, "user": {"token": token}}],
        }
        text = yaml.safe_dump(content, sort_keys=False, width=100_000)
        try:
            kubeconfig_secret.parse_kubeconfig(text.encode(), KEY, self.where)
        except ValueError as error:
            raise UserError(str(error).removeprefix(f'key "{KEY}" of ')) from error
        return text

    def has_same_server(self, kubeconfig: Mapping[str, Any]) -> bool:
        """Return True if a kubeconfig of ``parse_kubeconfig`` has the same API server."""
        [entry] = kubeconfig["clusters"]
        authority = "certificate-authority-data"
        return all(entry["cluster"].get(key) == self.fields.get(key) for key in ("server", authority))


def read_stored(secret: Object, where: str) -> Mapping[str, Any] | None:
    """Return the kubeconfig of a Secret; None for one that the controllers would not accept either."""
    try:
        return kubeconfig_secret.parse_kubeconfig(
            kubeconfig_secret.read_content(secret, KEY, where), KEY, where
        )
    except ValueError:
        return None


def is_fresh(claims: Claims | None, account: str) -> bool:
    """Return True for a token of an account that has more than a quarter of its life left."""
    if claims is None or claims.subject != subject_of(account) or claims.lifetime is None:
        return False
    return time.time() < claims.lifetime.last_quarter


async def is_accepted(kubeconfig: Mapping[str, Any]) -> bool:
    """Return True if a cluster accepts the credential of a kubeconfig. Raises ``KubernetesError``."""
    async with Client.from_kubeconfig(kubeconfig, timeout_s=10.0) as client:
        try:
            await client.list(NAMESPACES, fields="metadata.name=kube-system")
        except errors.Forbidden:
            return False
    return True


async def create_token(client: Client, account: str, lifetime_s: int) -> str:
    """Return a new token of an account. Raises ``KubernetesError`` or ``UserError``."""
    token = await client.create_token(account, SYSTEM_NAMESPACE, lifetime_s)
    claims = decode_claims(token)
    if claims is None or claims.subject != subject_of(account) or claims.lifetime is None:
        raise UserError(f'the cluster did not issue an expiring token for ServiceAccount "{account}"')
    return token
