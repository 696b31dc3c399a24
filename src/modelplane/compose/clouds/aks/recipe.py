"""Azure Kubernetes Service, as a row of the table of clouds."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any

from modelplane.api.clouds.aks_cluster import AKSCluster, AKSFabric
from modelplane.api.clouds.cloud_cluster import PoolRole, SecretType
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.fields.cluster.node_pools import FabricType, NodePool
from modelplane.api.inference_class import Provisioning
from modelplane.compose.clouds import address_ranges
from modelplane.compose.clouds.aks import cluster, inside, network, nodes
from modelplane.compose.clouds.aks.kinds import ACCOUNT, PROVIDERS, TITLE
from modelplane.compose.clouds.nodes import SYSTEM, system_problems
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.site import Site

KUBECONFIG = "kubeconfig"
"""Key of the connection Secret. Source: provider-upjet-azure, connection details of KubernetesCluster."""


def problems(site: Site[AKSCluster]) -> Iterator[str]:
    """Yield what is wrong with the settings of a cluster."""
    spec = site.owner.spec
    yield from _range_problems(site)
    yield from system_problems(spec.system_pool)
    for pool in spec.node_pools:
        if pool.name == SYSTEM and pool.role is PoolRole.GPU:
            yield f'pool "{SYSTEM}" is for everything but models: give a GPU pool another name'
        elif pool.name == SYSTEM and pool.taints:
            yield f'pool "{SYSTEM}" cannot have taints: remove them'
        for zone in pool.zones:
            if not (zone.isascii() and zone.isdigit()):
                yield f'pool "{pool.name}": zone {zone} is not a number: Azure numbers zones, such as "1"'


def _range_problems(site: Site[AKSCluster]) -> Iterator[str]:
    ranges = site.owner.spec.networking
    whole = {"vnetCidr": ranges.vnet_cidr}
    wrong = list(
        address_ranges.problems({**whole, "podCidr": ranges.pod_cidr, "serviceCidr": ranges.service_cidr})
    )
    yield from wrong
    if wrong:
        return
    yield from address_ranges.problems({"subnetCidr": ranges.subnet_cidr}, within=whole)
    if IPv4Network(ranges.service_cidr).prefixlen > cluster.SMALLEST_SERVICES:
        smallest = cluster.SMALLEST_SERVICES
        yield f"serviceCidr {ranges.service_cidr} has no room for cluster DNS: /{smallest} or larger has"


def secrets(site: Site[AKSCluster]) -> tuple[Mapping[str, str], ...]:
    """Return the kubeconfig, with the certificate of the local administrator."""
    return ({"type": str(SecretType.KUBECONFIG), "name": cluster.kubeconfig_secret(site), "key": KUBECONFIG},)


def pool(asked: NodePool, provisioning: Provisioning) -> Mapping[str, Any] | None:
    """Return the fields of a pool that follow from its class and its fabric."""
    recipe = provisioning.aks
    if recipe is None:
        return None
    fields: dict[str, Any] = {
        "vmSize": recipe.vm_size,
        "diskSizeGb": recipe.disk_size_gb,
        "gpu": {"acceleratorType": recipe.accelerator.type},
    }
    if asked.build_interconnect().type is FabricType.INFINIBAND:
        fields["fabric"] = str(AKSFabric.INFINIBAND)
    return fields


RECIPE = Recipe(
    Source.AKS,
    TITLE,
    "azure",
    AKSCluster,
    PROVIDERS,
    ACCOUNT,
    (network.compose, cluster.compose, nodes.compose),
    problems,
    secrets,
    pool,
    fabrics=frozenset({FabricType.INFINIBAND}),
    inside=inside.inside,
)
"""The row."""
