"""Clusters on Vultr Kubernetes Engine: the cluster with its system pool, and its other pools."""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api.clouds.cloud_cluster import PoolRole
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.vultr_cluster import VultrCluster, VultrNodePool
from modelplane.api.fields.cluster.node_pools import NodePool
from modelplane.api.inference_class import VultrRecipe
from modelplane.compose.clouds.kinds import VULTR, VULTR_CLUSTER, VULTR_NODE_POOL
from modelplane.compose.clouds.nodes import (
    SYSTEM,
    WITHOUT_LATE_INITIALIZATION,
    at_first,
    first_size_problems,
    label_and_taint,
    list_user_pools,
    system_pool,
    system_problems,
    zone_problems,
)
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.site import Parts, Site, Spec, Waiting


def find_problems(site: Site[VultrCluster]) -> Iterator[str]:
    """Yield what is wrong with the settings of a cluster."""
    spec = site.owner.spec
    yield from system_problems(spec.system_pool)
    yield from first_size_problems(spec.node_pools)
    if any(pool.name == SYSTEM and pool.role is PoolRole.GPU for pool in spec.node_pools):
        yield f'pool name "{SYSTEM}" is reserved for system pods: give the GPU pool another name'


def describe_pool(_asked: NodePool, recipe: VultrRecipe) -> Mapping[str, Any]:
    """Return the fields of a pool that follow from its class."""
    return {"plan": recipe.plan, "gpu": {"acceleratorType": recipe.accelerator.type}}


def find_pool_problems(asked: NodePool) -> Iterator[str]:
    """Yield what Vultr lacks for a pool."""
    yield from zone_problems(VULTR.title, asked)


def compose_cluster(site: Site[VultrCluster]) -> Parts:
    """Compose the cluster with its system pool."""
    spec = site.owner.spec
    pool = system_pool(spec.node_pools, VultrNodePool, spec.system_pool)
    pool_size, first_size = size(pool)
    yield site.managed(
        "cluster",
        VULTR_CLUSTER,
        {
            "label": site.owner.metadata.name,
            "region": spec.region,
            "version": spec.kubernetes_version,
            "haControlplanes": spec.high_availability,
            "nodePools": {**nodes_of(pool), **pool_size},
        },
        managementPolicies=WITHOUT_LATE_INITIALIZATION,
        **at_first({"nodePools": first_size} if first_size else {}),
        writeConnectionSecretToRef={"name": site.kubeconfig_secret},
    )


def compose_nodes(site: Site[VultrCluster]) -> Parts:
    """Compose every pool, once there is a cluster: Vultr adds none to one that it is still making."""
    for pool in list_user_pools(site.owner.spec.node_pools):
        key = f"nodepool-{pool.name}"
        if not site.text("cluster", "id"):
            yield Waiting(key, "the id of the cluster, which Vultr reports")
            continue
        pool_size, first_size = size(pool)
        yield site.managed(
            key,
            VULTR_NODE_POOL,
            {"clusterIdRef": {"name": site.name("cluster")}, **nodes_of(pool), **pool_size},
            managementPolicies=WITHOUT_LATE_INITIALIZATION,
            **at_first(first_size),
        )


def size(pool: VultrNodePool) -> tuple[dict[str, Any], Spec]:
    """Return the size of a pool, and that of an autoscaled one at first, which the autoscaler changes."""
    is_fixed = pool.max_node_count is None
    found: dict[str, Any] = {"autoScaler": not is_fixed}
    if is_fixed:
        return {**found, "nodeQuantity": pool.node_count}, {}
    fewest = pool.node_count if pool.min_node_count is None else pool.min_node_count
    bounds = {"minNodes": fewest, "maxNodes": pool.max_node_count}
    return {**found, **bounds}, {"nodeQuantity": pool.node_count}


def nodes_of(pool: VultrNodePool) -> dict[str, Any]:
    """Return the name of a pool, and the machines, labels and taints of its nodes."""
    node_labels, tainted = label_and_taint(pool)
    listed = [{"key": key, "value": value} for key, value in node_labels.items()]
    node: dict[str, Any] = {"label": pool.name, "plan": pool.plan, "labels": listed}
    if tainted:
        node["taints"] = [
            {"key": taint.key, "value": taint.value, "effect": str(taint.effect)} for taint in tainted
        ]
    return node


RECIPE = Recipe(
    source=Source.VULTR,
    title=VULTR.title,
    package="vultr",
    type=VultrCluster,
    providers=VULTR.providers,
    account=VULTR.account,
    parts=(compose_cluster, compose_nodes),
    problems=find_problems,
    pool=describe_pool,
    pool_problems=find_pool_problems,
)
"""Its row in `table.py`."""
