"""Origin of a cluster: a cloud that provisions it, or the kubeconfig of an existing one."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.clouds.aks_settings import AKSSettings
from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.eks_settings import EKSSettings
from modelplane.api.clouds.gke_settings import GKESettings
from modelplane.api.clouds.nebius_settings import NebiusSettings
from modelplane.api.clouds.vultr_settings import VultrSettings
from modelplane.api.meta import SYSTEM_NAMESPACE, Model
from modelplane.api.schema.fields import DNS_SUBDOMAIN, SECRET_KEY, Rule, about


class Source(StrEnum):
    """Source of a cluster: one of the clouds, or Existing."""

    GKE = Cloud.GKE.value
    EKS = Cloud.EKS.value
    AKS = Cloud.AKS.value
    NEBIUS = Cloud.NEBIUS.value
    VULTR = Cloud.VULTR.value
    EXISTING = "Existing"


class IdentityType(StrEnum):
    """Cloud of a credential."""

    GOOGLE = "GoogleApplicationCredentials"
    AWS = "AWSWebIdentityCredentials"
    NEBIUS = "NebiusServiceAccountCredentials"


SecretKey = Annotated[str, about("Key in the Secret.", min_length=1, max_length=253, pattern=SECRET_KEY)]
SecretName = Annotated[
    str,
    about(
        f"Name of a Secret in namespace {SYSTEM_NAMESPACE}.",
        min_length=1,
        max_length=253,
        pattern=DNS_SUBDOMAIN,
    ),
]


class KubeconfigSecret(Model):
    """The Secret that holds a kubeconfig."""

    name: SecretName
    key: SecretKey = "kubeconfig"


class IdentitySecret(Model):
    """The Secret that holds a cloud credential."""

    name: SecretName
    key: SecretKey = "private_key"
    type: Annotated[IdentityType, about("Cloud of the credential.")] = IdentityType.GOOGLE


class CacheStorage(Model):
    """Storage of a cluster for staged models."""

    storage_class_name: (
        Annotated[
            str,
            about(
                "StorageClass that supports ReadWriteMany volumes.",
                min_length=1,
                max_length=253,
                pattern=DNS_SUBDOMAIN,
            ),
        ]
        | None
    ) = None


class Existing(Model):
    """An existing cluster."""

    secret_ref: Annotated[KubeconfigSecret, about("Kubeconfig of the cluster.")]
    identity_secret_ref: (
        Annotated[
            IdentitySecret,
            about("Cloud credential to use with the kubeconfig, for clusters that authenticate with IAM."),
        ]
        | None
    ) = None
    cache: Annotated[CacheStorage, about("Storage for ModelCaches on this cluster.")] | None = None
    installer_secret_ref: (
        Annotated[
            KubeconfigSecret,
            about(
                "Kubeconfig that Helm uses to install charts on the cluster. Default: the kubeconfig "
                "in secretRef. The permissions that Modelplane creates for that account don't allow "
                "installing charts."
            ),
        ]
        | None
    ) = None


class GKE(GKESettings):
    """A Google Kubernetes Engine (GKE) cluster to create."""


class EKS(EKSSettings):
    """An Amazon Elastic Kubernetes Service (EKS) cluster to create."""


class AKS(AKSSettings):
    """An Azure Kubernetes Service (AKS) cluster to create."""


class Nebius(NebiusSettings):
    """A Nebius cluster to create. The provider configuration sets the project and the region."""


class Vultr(VultrSettings):
    """A Vultr Kubernetes Engine cluster to create."""


class ClusterOrigin(Model):
    """Source of the cluster."""

    __rules__ = tuple(
        Rule(
            f"self.source != '{source}' || has(self.{source.lower()})",
            f"{source.lower()} is required when source is {source}",
        )
        for source in Source
    )

    source: Annotated[
        Source,
        about(
            "Where the cluster comes from: Existing for a cluster that you run, or the cloud in "
            "which Modelplane creates the cluster."
        ),
    ]
    existing: Annotated[Existing, about("An existing cluster.")] | None = None
    gke: Annotated[GKE, about("Settings for GKE.")] | None = None
    eks: Annotated[EKS, about("Settings for EKS.")] | None = None
    aks: Annotated[AKS, about("Settings for AKS.")] | None = None
    nebius: Annotated[Nebius, about("Settings for Nebius. The object can be empty.")] | None = None
    vultr: Annotated[Vultr, about("Settings for Vultr.")] | None = None
