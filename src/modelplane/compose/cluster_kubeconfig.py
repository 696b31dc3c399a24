"""Kubeconfig of a cluster: the Secret that holds it, by the cluster's origin.

The controllers, the commands and the function for Crossplane all ask here, so a cloud whose clusters have
their kubeconfig elsewhere is told of in one place.
"""

from dataclasses import dataclass

from modelplane.api.cluster_origin import ClusterOrigin, Source
from modelplane.api.meta import SYSTEM_NAMESPACE


@dataclass(frozen=True, slots=True)
class KubeconfigReference:
    """A key of a Secret that holds a kubeconfig."""

    name: str
    key: str
    namespace: str = SYSTEM_NAMESPACE

    def __str__(self) -> str:
        """The Secret as messages name it."""
        return f'Secret "{self.name}" in namespace "{self.namespace}"'


@dataclass(frozen=True, slots=True)
class NoKubeconfig:
    """Why a cluster has no kubeconfig."""

    reason: str


def kubeconfig_reference(origin: ClusterOrigin) -> KubeconfigReference | NoKubeconfig:
    """Return where the kubeconfig of a cluster is."""
    if origin.source is not Source.EXISTING or origin.existing is None:
        return NoKubeconfig(f"a cluster of source {origin.source} has no kubeconfig yet")
    secret = origin.existing.secret_ref
    return KubeconfigReference(secret.name, secret.key)
