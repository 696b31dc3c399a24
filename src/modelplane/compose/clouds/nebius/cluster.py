"""The cluster itself: a control plane with a public endpoint."""

from typing import Any

from modelplane.api.clouds.nebius_cluster import NebiusCluster
from modelplane.compose.clouds.nebius.kinds import CLUSTER
from modelplane.compose.clouds.nebius.nebius_names import named
from modelplane.compose.clouds.site import Parts, Site

ENDPOINTS: dict[str, Any] = {"publicEndpoint": {}}
"""The control plane of the fleet reaches the cluster there. Source: reference API, 4.4."""


def compose(site: Site[NebiusCluster]) -> Parts:
    """Compose the cluster."""
    yield named(
        site,
        "cluster",
        CLUSTER,
        {
            "controlPlane": {
                "version": site.owner.spec.kubernetes_version,
                "subnetIdRef": {"name": site.name("subnet")},
                "endpoints": ENDPOINTS,
            }
        },
        writeConnectionSecretToRef={"name": kubeconfig_secret(site)},
    )


def kubeconfig_secret(site: Site[NebiusCluster]) -> str:
    """Return the name of the Secret with the kubeconfig."""
    return site.name("kubeconfig")
