"""The cluster itself: the control plane, and the system pool, which Vultr has in it."""

from modelplane.api import labels
from modelplane.api.vultr_cluster import VultrCluster
from modelplane.compose.clouds.nodes import SYSTEM, WITHOUT_LATE_INITIALIZATION
from modelplane.compose.clouds.site import Parts, Site
from modelplane.compose.clouds.vultr.kinds import CLUSTER

AUTOSCALED = True
"""The system pool follows the load. Source: reference API, 4.5."""


def compose(site: Site[VultrCluster]) -> Parts:
    """Compose the cluster with its system pool."""
    spec = site.owner.spec
    pool = spec.system_pool
    yield site.managed(
        "cluster",
        CLUSTER,
        {
            "label": site.owner.metadata.name,
            "region": spec.region,
            "version": spec.kubernetes_version,
            "haControlplanes": spec.high_availability,
            "nodePools": {
                "label": SYSTEM,
                "plan": pool.plan,
                "autoScaler": AUTOSCALED,
                "minNodes": pool.min_node_count,
                "maxNodes": pool.max_node_count,
                "labels": [{"key": labels.POOL, "value": SYSTEM}],
            },
        },
        managementPolicies=WITHOUT_LATE_INITIALIZATION,
        # The autoscaler changes it from then on.
        initProvider={"nodePools": {"nodeQuantity": pool.min_node_count}},
        writeConnectionSecretToRef={"name": kubeconfig_secret(site)},
    )


def kubeconfig_secret(site: Site[VultrCluster]) -> str:
    """Return the name of the Secret with the kubeconfig."""
    return site.name("kubeconfig")
