"""Google Kubernetes Engine, as a row of the table of clouds."""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api.clouds.cloud_cluster import SecretType
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.gke_cluster import GKECluster
from modelplane.api.fields.cluster.node_pools import NodePool
from modelplane.api.inference_class import Provisioning
from modelplane.compose.clouds import address_ranges
from modelplane.compose.clouds.gke import cluster, identity, inside, network, nodes, project, storage
from modelplane.compose.clouds.gke.kinds import ACCOUNT, PROVIDERS, TITLE
from modelplane.compose.clouds.nodes import system_problems
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.site import Site

KUBECONFIG = "kubeconfig"
"""Key of the connection Secret. Source: provider-upjet-gcp, connection details of Cluster."""


def problems(site: Site[GKECluster]) -> Iterator[str]:
    """Yield what is wrong with the settings of a cluster."""
    spec = site.owner.spec
    ranges = spec.networking
    yield from address_ranges.problems(
        {
            "nodeCidr": ranges.node_cidr,
            "podCidr": ranges.pod_cidr,
            "serviceCidr": ranges.service_cidr,
        }
    )
    if not site.owner.metadata.name[:1].isalpha():
        yield "the name of the cluster begins with a digit, and names on Google Cloud begin with a letter"
    existing = project.of_cluster(site)
    if spec.project and existing and spec.project != existing:
        yield f"project is {spec.project}, and the cluster is in {existing}: a cluster cannot be moved"
    yield from system_problems(spec.system_pool)
    for pool in nodes.pools(site.owner):
        for zone in pool.zones:
            if zone.rpartition("-")[0] != spec.region:
                yield f'pool "{pool.name}": zone {zone} is not in region {spec.region}'
        if nodes.uneven(pool):
            yield (
                f'pool "{pool.name}": {pool.max_node_count} nodes cannot be divided evenly among its zones: '
                "make nodeCount a multiple of their number, or give each zone a pool"
            )


def secrets(site: Site[GKECluster]) -> tuple[Mapping[str, str], ...]:
    """Return the kubeconfig, which has no credential, and the key of the account to use with it."""
    return (
        {"type": str(SecretType.KUBECONFIG), "name": cluster.kubeconfig_secret(site), "key": KUBECONFIG},
        {"type": str(SecretType.GOOGLE), "name": identity.key_secret(site), "key": identity.KEY},
    )


def pool(_pool: NodePool, provisioning: Provisioning) -> Mapping[str, Any] | None:
    """Return the fields of a pool that follow from its class."""
    recipe = provisioning.gke
    if recipe is None:
        return None
    return {
        "machineType": recipe.machine_type,
        "diskSizeGb": recipe.disk_size_gb,
        "gpu": {"acceleratorType": recipe.accelerator.type, "acceleratorCount": recipe.accelerator.count},
    }


RECIPE = Recipe(
    Source.GKE,
    TITLE,
    "gcp",
    GKECluster,
    PROVIDERS,
    ACCOUNT,
    (network.compose, identity.compose, cluster.compose, nodes.compose, storage.compose),
    problems,
    secrets,
    pool,
    reads_account=lambda owner: not owner.spec.project,
    inside=inside.inside,
)
"""The row."""
