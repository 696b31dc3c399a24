"""Managed resources of a cluster on Google Kubernetes Engine.

Source: provider-upjet-gcp v2.6.0, ``package/crds``.
"""

from modelplane.compose.clouds.provider import CONTRIB, Account, ManagedKind, Provider

TITLE = "Google Cloud"
"""Name of the cloud in sentences."""

_CLOUD_PLATFORM = "cloudplatform.gcp.m.upbound.io"
_COMPUTE = "compute.gcp.m.upbound.io"
_CONTAINER = "container.gcp.m.upbound.io"

PROJECT_SERVICE = ManagedKind(_CLOUD_PLATFORM, "ProjectService", "projectservices")
SERVICE_ACCOUNT = ManagedKind(_CLOUD_PLATFORM, "ServiceAccount", "serviceaccounts")
SERVICE_ACCOUNT_KEY = ManagedKind(_CLOUD_PLATFORM, "ServiceAccountKey", "serviceaccountkeys")
PROJECT_IAM_MEMBER = ManagedKind(_CLOUD_PLATFORM, "ProjectIAMMember", "projectiammembers")
NETWORK = ManagedKind(_COMPUTE, "Network", "networks")
SUBNETWORK = ManagedKind(_COMPUTE, "Subnetwork", "subnetworks")
CLUSTER = ManagedKind(_CONTAINER, "Cluster", "clusters")
NODE_POOL = ManagedKind(_CONTAINER, "NodePool", "nodepools")

_VERSION = "2.6.0"

PROVIDERS = (
    Provider(f"{CONTRIB}/provider-family-gcp", _VERSION),
    Provider(
        f"{CONTRIB}/provider-gcp-cloudplatform",
        _VERSION,
        (PROJECT_SERVICE, SERVICE_ACCOUNT, SERVICE_ACCOUNT_KEY, PROJECT_IAM_MEMBER),
    ),
    Provider(f"{CONTRIB}/provider-gcp-compute", _VERSION, (NETWORK, SUBNETWORK)),
    Provider(f"{CONTRIB}/provider-gcp-container", _VERSION, (NODE_POOL, CLUSTER)),
)

ACCOUNT = Account("gcp.m.upbound.io")
