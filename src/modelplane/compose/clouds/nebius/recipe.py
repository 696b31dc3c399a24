"""Nebius Managed Kubernetes, as a row of the table of clouds."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api.clouds.cloud_cluster import SecretType
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.nebius_cluster import NebiusCluster, NebiusFabricType
from modelplane.api.fields.cluster.node_pools import FabricType, NodePool
from modelplane.api.inference_class import Provisioning
from modelplane.api.schema.fields import DNS_LABEL
from modelplane.compose.clouds.nebius import cluster, fabric, identity, inside, network, nodes, storage
from modelplane.compose.clouds.nebius.kinds import ACCOUNT, PROVIDERS, TITLE
from modelplane.compose.clouds.nodes import first_size_problems, system_problems, zone_problems
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.site import Site

KUBECONFIG = "kubeconfig"
"""Key of the connection Secret. Source: provider-upjet-nebius, connection details of Cluster."""


def problems(site: Site[NebiusCluster]) -> Iterator[str]:
    """Yield what is wrong with the settings of a cluster."""
    yield from system_problems(site.owner.spec.system_pool)
    for pool in fabric.joined(site):
        network_id = pool.fabric.infiniband.fabric
        if not re.fullmatch(DNS_LABEL, network_id):
            yield f'pool "{pool.name}": "{network_id}" is no id of a fabric, such as fabric-2: correct it'
    yield from first_size_problems(site.owner.spec.node_pools)


def secrets(site: Site[NebiusCluster]) -> tuple[Mapping[str, str], ...]:
    """Return the kubeconfig, which has no credential, and the credentials of the account to use with it."""
    kubeconfig = {"type": str(SecretType.KUBECONFIG), "name": cluster.kubeconfig_secret(site)}
    return ({**kubeconfig, "key": KUBECONFIG}, *identity.secrets(site))


def pool(asked: NodePool, provisioning: Provisioning) -> Mapping[str, Any] | None:
    """Return the fields of a pool that follow from its class and its fabric."""
    recipe = provisioning.nebius
    if recipe is None:
        return None
    fields: dict[str, Any] = {
        "platform": recipe.platform,
        "preset": recipe.preset,
        "diskSizeGb": recipe.disk_size_gb,
        "gpu": {"acceleratorType": recipe.accelerator.type, "driversPreset": recipe.drivers_preset},
    }
    joined = asked.build_interconnect()
    if joined.type is FabricType.INFINIBAND and joined.infiniband is not None:
        fields["fabric"] = {
            "type": str(NebiusFabricType.INFINIBAND),
            "infiniband": {"fabric": joined.infiniband.fabric},
        }
    return fields


def pool_problems(asked: NodePool) -> Iterator[str]:
    """Yield what Nebius lacks for a pool."""
    joined = asked.build_interconnect()
    if joined.type is FabricType.INFINIBAND and joined.infiniband is None:
        yield f"{TITLE} needs the id of the InfiniBand network: set fabric.infiniband.fabric"
    yield from zone_problems(TITLE, asked)


RECIPE = Recipe(
    Source.NEBIUS,
    TITLE,
    "nebius",
    NebiusCluster,
    PROVIDERS,
    ACCOUNT,
    (
        network.compose,
        cluster.compose,
        fabric.compose,
        nodes.compose,
        storage.compose,
    ),
    problems,
    secrets,
    pool,
    pool_problems,
    fabrics=frozenset({FabricType.INFINIBAND}),
    reads_account=lambda _owner: True,
    inside=inside.inside,
)
"""The row."""
