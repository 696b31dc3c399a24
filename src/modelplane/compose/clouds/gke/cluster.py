"""The cluster itself: a regional control plane whose nodes are all in pools of their own."""

from modelplane.api.clouds.gke_cluster import GKECluster
from modelplane.compose.clouds.gke import project
from modelplane.compose.clouds.gke.kinds import CLUSTER
from modelplane.compose.clouds.gke.network import PODS, SERVICES
from modelplane.compose.clouds.site import Parts, Site, Waiting

LONGEST_NAME = 40
"""Characters of names of clusters and node pools. Source: GKE API, ``Cluster.name``, ``NodePool.name``."""

NO_DEFAULT_POOL = {"removeDefaultNodePool": True, "initialNodeCount": 1}
"""The default pool cannot be omitted, only removed again. Source: Terraform google provider,
``container_cluster``, ``remove_default_node_pool``."""

FILESTORE = {"gcpFilestoreCsiDriverConfig": {"enabled": True}}
"""The driver of shared volumes for model caches. Source: GKE, "Access Filestore instances"."""


def compose(site: Site[GKECluster]) -> Parts:
    """Compose the cluster once its project is known, which its workload identity pool is named after."""
    spec = site.owner.spec
    in_project = project.known(site)
    if not in_project:
        yield Waiting("cluster", project.UNKNOWN)
        return
    yield site.managed(
        "cluster",
        CLUSTER,
        {
            **project.given(site),
            **NO_DEFAULT_POOL,
            "location": spec.region,
            "deletionProtection": spec.deletion_protection,
            "networkRef": {"name": site.name("network")},
            "subnetworkRef": {"name": site.name("subnet")},
            "ipAllocationPolicy": {
                "clusterSecondaryRangeName": PODS,
                "servicesSecondaryRangeName": SERVICES,
            },
            "releaseChannel": {"channel": str(spec.release_channel)},
            "minMasterVersion": spec.kubernetes_version,
            "workloadIdentityConfig": {"workloadPool": in_project + project.POOL_OF_PROJECT},
            "addonsConfig": FILESTORE,
        },
        cluster_name(site),
        writeConnectionSecretToRef={"name": kubeconfig_secret(site)},
    )


def cluster_name(site: Site[GKECluster]) -> str:
    """Return the name of the cluster."""
    return site.name("gke", limit=LONGEST_NAME)


def kubeconfig_secret(site: Site[GKECluster]) -> str:
    """Return the name of the Secret with the kubeconfig."""
    return site.name("kubeconfig")
