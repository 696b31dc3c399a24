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
                "StorageClass that offers ReadWriteMany volumes.",
                min_length=1,
                max_length=253,
                pattern=DNS_SUBDOMAIN,
            ),
        ]
        | None
    ) = None


class Existing(Model):
    """A cluster that exists already."""

    secret_ref: Annotated[KubeconfigSecret, about("Kubeconfig of the cluster.")]
    identity_secret_ref: (
        Annotated[
            IdentitySecret,
            about("A cloud credential used with the kubeconfig, for clusters that authenticate by IAM."),
        ]
        | None
    ) = None
    cache: Annotated[CacheStorage, about("Storage for ModelCaches on this cluster.")] | None = None
    installer_secret_ref: (
        Annotated[
            KubeconfigSecret,
            about(
                "Kubeconfig with which Helm installs charts on the cluster. Absent: that of secretRef, whose "
                "account, as Modelplane grants it, may install none."
            ),
        ]
        | None
    ) = None


class GKE(GKESettings):
    """A cluster to create on Google Kubernetes Engine."""


class EKS(EKSSettings):
    """A cluster to create on Amazon Elastic Kubernetes Service."""


class AKS(AKSSettings):
    """A cluster to create on Azure Kubernetes Service."""


class Nebius(NebiusSettings):
    """A cluster to create on Nebius; project and region come from the provider configuration."""


class Vultr(VultrSettings):
    """A cluster to create on Vultr Kubernetes Engine."""


class ClusterOrigin(Model):
    """Source of the cluster."""

    __rules__ = tuple(
        Rule(
            f"self.source != '{source}' || has(self.{source.lower()})",
            f"{source.lower()} is required when source is {source}",
        )
        for source in Source
    )

    source: Annotated[Source, about("Existing, or the cloud on which the cluster is created.")]
    existing: Annotated[Existing, about("A cluster that exists already.")] | None = None
    gke: Annotated[GKE, about("Settings for GKE.")] | None = None
    eks: Annotated[EKS, about("Settings for EKS.")] | None = None
    aks: Annotated[AKS, about("Settings for AKS.")] | None = None
    nebius: Annotated[Nebius, about("Settings for Nebius; may be empty.")] | None = None
    vultr: Annotated[Vultr, about("Settings for Vultr.")] | None = None
