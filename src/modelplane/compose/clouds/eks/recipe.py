"""Amazon Elastic Kubernetes Service, as a row of the table of clouds."""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api.clouds.cloud_cluster import SecretType
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.eks_cluster import EKSCluster, EKSFabric
from modelplane.api.fields.cluster.node_pools import FabricType, NodePool
from modelplane.api.inference_class import Provisioning
from modelplane.compose.clouds.eks import cluster, fabric, identity, inside, network, nodes, storage, subnets
from modelplane.compose.clouds.eks.kinds import ACCOUNT, PROVIDERS, TITLE
from modelplane.compose.clouds.nodes import system_problems
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.site import Site

KUBECONFIG = "kubeconfig"
"""Key of the connection Secret. Source: provider-upjet-aws, connection details of ClusterAuth."""


def problems(site: Site[EKSCluster]) -> Iterator[str]:
    """Yield what is wrong with the settings of a cluster."""
    spec = site.owner.spec
    wrong = list(subnets.problems(site))
    yield from wrong
    yield from system_problems(spec.system_pool)
    known = {zone.name for zone in subnets.zones(site)} if not wrong else set()
    for pool in nodes.pools(site.owner):
        for zone in pool.zones:
            if not subnets.is_in(zone, spec.region):
                yield f'pool "{pool.name}": zone {zone} is not in region {spec.region}'
            elif known and zone not in known:
                yield (
                    f'pool "{pool.name}": the cluster has no subnet in zone {zone}: add a range to '
                    "networking.subnetCidrs, or name the zones in networking.zones"
                )


def secrets(site: Site[EKSCluster]) -> tuple[Mapping[str, str], ...]:
    """Return the kubeconfig, with a token that the provider renews."""
    return ({"type": str(SecretType.KUBECONFIG), "name": cluster.kubeconfig_secret(site), "key": KUBECONFIG},)


def pool(asked: NodePool, provisioning: Provisioning) -> Mapping[str, Any] | None:
    """Return the fields of a pool that follow from its class, its capacity block and its fabric."""
    recipe = provisioning.eks
    if recipe is None:
        return None
    fields: dict[str, Any] = {
        "instanceType": recipe.instance_type,
        "diskSizeGb": recipe.disk_size_gb,
        "gpu": {"acceleratorType": recipe.accelerator.type},
    }
    if asked.capacity_block is not None:
        reservation = asked.capacity_block.capacity_reservation_id
        fields["capacityBlock"] = {"capacityReservationId": reservation}
    if asked.build_interconnect().type is FabricType.EFA:
        fields["fabric"] = str(EKSFabric.EFA)
    return fields


RECIPE = Recipe(
    Source.EKS,
    TITLE,
    "aws",
    EKSCluster,
    PROVIDERS,
    ACCOUNT,
    (
        network.compose,
        identity.compose,
        cluster.compose,
        fabric.compose,
        nodes.compose,
        storage.compose,
    ),
    problems,
    secrets,
    pool,
    fabrics=frozenset({FabricType.EFA}),
    inside=inside.inside,
    file_system=storage.file_system,
)
"""The row."""
