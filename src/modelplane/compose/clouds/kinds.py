"""The kinds of managed resources of all clouds, and what they are for."""

from modelplane.compose.clouds.aks import kinds as aks
from modelplane.compose.clouds.eks import kinds as eks
from modelplane.compose.clouds.gke import kinds as gke
from modelplane.compose.clouds.nebius import kinds as nebius
from modelplane.compose.clouds.provider import ManagedKind
from modelplane.compose.clouds.vultr import kinds as vultr

_CLOUDS = (
    gke,
    eks,
    aks,
    nebius,
    vultr,
)
"""The providers and kinds of each: one row each."""

MANAGED: dict[str, tuple[ManagedKind, ...]] = {
    f"Clusters on {cloud.TITLE} consist of them.": tuple(
        kind for provider in cloud.PROVIDERS for kind in provider.kinds
    )
    for cloud in _CLOUDS
}
"""The kinds, by the reason for the permission to write them."""
