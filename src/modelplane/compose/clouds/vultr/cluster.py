"""The cluster itself: the control plane, and the system pool, which Vultr has in it."""

from modelplane.api.clouds.vultr_cluster import VultrCluster
from modelplane.compose.clouds.nodes import WITHOUT_LATE_INITIALIZATION, at_first
from modelplane.compose.clouds.site import Parts, Site
from modelplane.compose.clouds.vultr.kinds import CLUSTER
from modelplane.compose.clouds.vultr.pools import nodes_of, size, system_of


def compose(site: Site[VultrCluster]) -> Parts:
    """Compose the cluster with its system pool."""
    spec = site.owner.spec
    pool = system_of(site.owner)
    pool_size, first_size = size(pool)
    yield site.managed(
        "cluster",
        CLUSTER,
        {
            "label": site.owner.metadata.name,
            "region": spec.region,
            "version": spec.kubernetes_version,
            "haControlplanes": spec.high_availability,
            "nodePools": {**nodes_of(pool), **pool_size},
        },
        managementPolicies=WITHOUT_LATE_INITIALIZATION,
        **at_first({"nodePools": first_size} if first_size else {}),
        writeConnectionSecretToRef={"name": kubeconfig_secret(site)},
    )


def kubeconfig_secret(site: Site[VultrCluster]) -> str:
    """Return the name of the Secret with the kubeconfig."""
    return site.name("kubeconfig")
