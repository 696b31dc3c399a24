"""Kubeconfig of a cluster: the Secret that holds it, by the cluster's origin.

The controllers, the commands and the function for Crossplane all read it here, so that a cloud with another
Secret needs a change in one place only.
"""

from dataclasses import dataclass
from typing import Final

from modelplane.api.cluster_origin import ClusterOrigin, Source
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.rejected import Rejected

ACCOUNT: Final = "modelplane-inference-cluster"
"""The ServiceAccount of a fleet on one of its clusters, in the namespace of the system."""

SUBJECT: Final = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{ACCOUNT}"
"""The account as API servers name it."""


@dataclass(frozen=True, slots=True)
class KubeconfigReference:
    """A key of a Secret that holds a kubeconfig."""

    name: str
    key: str
    namespace: str = SYSTEM_NAMESPACE

    def __str__(self) -> str:
        """The Secret as messages name it."""
        return f'Secret "{self.name}" in namespace "{self.namespace}"'


def kubeconfig_reference(origin: ClusterOrigin) -> KubeconfigReference | Rejected:
    """Return the Secret of a cluster's kubeconfig, or why there is none."""
    if origin.source is not Source.EXISTING or origin.existing is None:
        return Rejected(f"a cluster of source {origin.source} has no kubeconfig yet")
    secret = origin.existing.secret_ref
    return KubeconfigReference(secret.name, secret.key)


def replacement(secret: str) -> str:
    """Return the remedy for a credential that a cluster does not accept, or soon will not."""
    return f"put a new kubeconfig into {secret}, `modelplane install --inference-cluster` prints the commands"
