"""The identity for access to a Nebius cluster: that of its provider configuration."""

from collections.abc import Mapping

from modelplane.api.clouds.cloud_cluster import SecretType
from modelplane.api.clouds.nebius_cluster import NebiusCluster
from modelplane.api.schema.untyped import get_map
from modelplane.compose.clouds.site import ACCOUNT_KEY, Site

FROM_SECRET = "Secret"  # noqa: S105  the word, not a secret
"""Source of credentials that are in a Secret. Source: provider-upjet-nebius, ``ProviderConfig``."""


def secrets(site: Site[NebiusCluster]) -> tuple[Mapping[str, str], ...]:
    """Return the Secret with the credentials; the last known one if the configuration is not read."""
    for config in site.request.found(ACCOUNT_KEY):
        credentials = get_map(config, "spec", "credentials")
        secret = credentials.get("secretRef")
        if credentials.get("source") != FROM_SECRET or not secret:
            return ()
        return (_listed(site, secret["name"], secret["key"], secret.get("namespace", "")),)
    return tuple(
        _listed(site, known.name, known.key, known.namespace or "")
        for known in site.owner.status.secrets
        if known.type is SecretType.NEBIUS
    )


def _listed(site: Site[NebiusCluster], name: str, key: str, namespace: str) -> Mapping[str, str]:
    entry = {"type": str(SecretType.NEBIUS), "name": name, "key": key}
    own = site.owner.metadata.namespace
    return {**entry, "namespace": namespace} if namespace not in ("", own) else entry
