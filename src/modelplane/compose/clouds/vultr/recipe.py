"""Vultr Kubernetes Engine, as a row of the table of clouds."""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api.clouds.cloud_cluster import PoolRole, SecretType
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.vultr_cluster import VultrCluster
from modelplane.api.fields.cluster.node_pools import NodePool
from modelplane.api.inference_class import Provisioning
from modelplane.compose.clouds.nodes import SYSTEM, first_size_problems, system_problems, zone_problems
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.site import Site
from modelplane.compose.clouds.vultr import cluster, nodes
from modelplane.compose.clouds.vultr.kinds import ACCOUNT, PROVIDERS, TITLE

KUBECONFIG = "kubeconfig"
"""Key of the connection Secret. Source: provider-upjet-vultr, connection details of Kubernetes."""


def problems(site: Site[VultrCluster]) -> Iterator[str]:
    """Yield what is wrong with the settings of a cluster."""
    spec = site.owner.spec
    yield from system_problems(spec.system_pool)
    yield from first_size_problems(spec.node_pools)
    if any(pool.name == SYSTEM and pool.role is PoolRole.GPU for pool in spec.node_pools):
        yield f'pool "{SYSTEM}" is for everything but models: give a GPU pool another name'


def secrets(site: Site[VultrCluster]) -> tuple[Mapping[str, str], ...]:
    """Return the kubeconfig."""
    return ({"type": str(SecretType.KUBECONFIG), "name": cluster.kubeconfig_secret(site), "key": KUBECONFIG},)


def pool(_asked: NodePool, provisioning: Provisioning) -> Mapping[str, Any] | None:
    """Return the fields of a pool that follow from its class."""
    recipe = provisioning.vultr
    if recipe is None:
        return None
    return {"plan": recipe.plan, "gpu": {"acceleratorType": recipe.accelerator.type}}


def pool_problems(asked: NodePool) -> Iterator[str]:
    """Yield what Vultr lacks for a pool."""
    yield from zone_problems(TITLE, asked)


RECIPE = Recipe(
    Source.VULTR,
    TITLE,
    "vultr",
    VultrCluster,
    PROVIDERS,
    ACCOUNT,
    (cluster.compose, nodes.compose),
    problems,
    secrets,
    pool,
    pool_problems,
)
"""The row."""
