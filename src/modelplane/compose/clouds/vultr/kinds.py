"""Managed resources of a cluster on Vultr Kubernetes Engine.

Source: provider-upjet-vultr v1.0.0, ``package/crds``.
"""

from modelplane.compose.clouds.provider import UPBOUND, Account, ManagedKind, Provider

TITLE = "Vultr"
"""Name of the cloud in sentences."""

_VKE = "vke.vultr.m.upbound.io"

NODE_POOL = ManagedKind(_VKE, "KubernetesNodePool", "kubernetesnodepools")
CLUSTER = ManagedKind(_VKE, "Kubernetes", "kubernetes")

PROVIDERS = (Provider(f"{UPBOUND}/provider-vultr", "1.0.0", (NODE_POOL, CLUSTER)),)

ACCOUNT = Account("vultr.m.upbound.io")
