"""Kubeconfig of a cluster: the Secret that holds it, by the cluster's origin.

The controllers, the commands and the function for Crossplane all read it here. An InferenceCluster names the
Secret of an existing cluster; the cluster of a cloud lists its own in its status.
"""

from typing import Final

import msgspec

from modelplane.api.clouds.cloud_cluster import SecretType
from modelplane.api.clouds.cluster_origin import ClusterOrigin, IdentityType, Source
from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_list

ACCOUNT: Final = "modelplane-inference-cluster"
"""The ServiceAccount of a fleet on one of its clusters, in the namespace of the system."""

INSTALLER: Final = "modelplane-installer"
"""The ServiceAccount with which Helm installs charts on a cluster, and its binding."""


def subject_of(account: str) -> str:
    """Return a ServiceAccount of the system's namespace as API servers name it."""
    return f"system:serviceaccount:{SYSTEM_NAMESPACE}:{account}"


SUBJECT: Final = subject_of(ACCOUNT)
"""The fleet's account as API servers name it."""

_IDENTITIES = {
    SecretType.GOOGLE: IdentityType.GOOGLE,
    SecretType.GCP_SERVICE_ACCOUNT_KEY: IdentityType.GOOGLE,
    SecretType.AWS: IdentityType.AWS,
    SecretType.NEBIUS: IdentityType.NEBIUS,
}


class IdentityReference(msgspec.Struct, frozen=True):
    """A key of a Secret that holds the cloud credential to use with a kubeconfig."""

    type: IdentityType
    name: str
    key: str
    namespace: str = SYSTEM_NAMESPACE

    def __str__(self) -> str:
        """The Secret as messages name it."""
        return f'Secret "{self.name}" in namespace "{self.namespace}"'


class KubeconfigReference(msgspec.Struct, frozen=True):
    """A key of a Secret that holds a kubeconfig."""

    name: str
    key: str
    namespace: str = SYSTEM_NAMESPACE
    identity: IdentityReference | None = None

    def __str__(self) -> str:
        """The Secret as messages name it."""
        return f'Secret "{self.name}" in namespace "{self.namespace}"'

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the Secrets that are read: of the kubeconfig and of the identity."""
        return frozenset({self.name} | ({self.identity.name} if self.identity else set()))


def kubeconfig_reference(origin: ClusterOrigin, provisioned: Object | None) -> KubeconfigReference | Rejected:
    """Return the Secret of a cluster's kubeconfig, or why there is none.

    ``provisioned`` is the cluster of the cloud, as observed; None if there is none.
    """
    if origin.source is Source.EXISTING and origin.existing is not None:
        named, by = origin.existing.secret_ref, origin.existing.identity_secret_ref
        used = IdentityReference(by.type, by.name, by.key) if by else None
        return KubeconfigReference(named.name, named.key, identity=used)
    kubeconfig: Object | None = None
    identity: IdentityReference | None = None
    for secret in get_list(provisioned, "status", "secrets"):
        namespace = secret.get("namespace") or SYSTEM_NAMESPACE
        if secret["type"] == SecretType.KUBECONFIG:
            kubeconfig = secret
        else:
            type_ = _IDENTITIES[SecretType(secret["type"])]
            identity = IdentityReference(type_, secret["name"], secret["key"], namespace)
    if kubeconfig is None:
        return Rejected(subject=f"a cluster of source {origin.source}", detail="has no kubeconfig yet")
    namespace = kubeconfig.get("namespace") or SYSTEM_NAMESPACE
    return KubeconfigReference(kubeconfig["name"], kubeconfig["key"], namespace, identity)


def replacement(secret: str, account: str = ACCOUNT) -> str:
    """Return the remedy for a credential that a cluster does not accept, or soon will not."""
    command = "modelplane install --inference-cluster" + (" --installer" if account == INSTALLER else "")
    return f"store a new kubeconfig in {secret}, with the commands that `{command}` prints"
