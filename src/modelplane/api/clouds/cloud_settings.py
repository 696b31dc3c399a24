"""Settings of a provisioned cluster that every cloud has: the account that pays for it, and its version."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.meta import SYSTEM_NAMESPACE, Model
from modelplane.api.schema.fields import DNS_SUBDOMAIN, VERSION, about


class CredentialsKind(StrEnum):
    """The kind of provider configuration that holds a cloud's credentials."""

    PROVIDER_CONFIG = "ProviderConfig"
    CLUSTER_PROVIDER_CONFIG = "ClusterProviderConfig"


class Credentials(Model):
    """The provider configuration with the credentials of the cloud."""

    type: Annotated[
        CredentialsKind,
        about(
            "Kind of the provider configuration. A ProviderConfig must be in namespace "
            f"{SYSTEM_NAMESPACE}, where the cluster is provisioned."
        ),
    ] = CredentialsKind.CLUSTER_PROVIDER_CONFIG
    name: Annotated[
        str,
        about("Name of the provider configuration.", min_length=1, max_length=253, pattern=DNS_SUBDOMAIN),
    ] = "default"


CloudCredentials = Annotated[
    Credentials,
    about(
        "Provider configuration for the cloud account. Default: the default configuration of the provider."
    ),
]
KubernetesVersion = Annotated[
    str,
    about(
        "Kubernetes version, such as 1.35 or a full version.", min_length=1, max_length=32, pattern=VERSION
    ),
]
DiskSizeGb = Annotated[int, about("Size of the boot disk, in GB.", ge=10, le=65536)]
