"""The cluster of a cloud that an InferenceCluster asks for, of the same name in the system namespace."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from modelplane.api.clouds.cloud_cluster import PoolRole
from modelplane.api.clouds.cloud_rows import CLOUDS
from modelplane.api.clouds.cluster_origin import ClusterOrigin, Source
from modelplane.api.conditions.reasons import CloudClusterCondition
from modelplane.api.fields.cluster.node_pools import FabricType, NodePool
from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import kind_of
from modelplane.api.listing import in_order
from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.api.schema.untyped import get_list
from modelplane.compose.clouds.recipe import Recipe
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.composition import Desired
from modelplane.compose.conditions import READY, SYNCED
from modelplane.compose.readiness import when_condition

_CAPACITY_BLOCKS = frozenset(Source(row.cloud) for row in CLOUDS if row.has_capacity_blocks)

_WITHOUT_SPOT = frozenset(Source(row.cloud) for row in CLOUDS if not row.has_spot)

_WITHOUT_BOUNDS = frozenset(Source(row.cloud) for row in CLOUDS if row.needs_upper_bound)
"""Without a maximum, their pools are not autoscaled; without a minimum, ``nodeCount`` is the minimum."""


def recipe_of(origin: ClusterOrigin) -> Recipe | None:
    """Return the recipe of a cluster's cloud; None if it exists already."""
    return RECIPES.get(origin.source)


def desired(
    recipe: Recipe, cluster: InferenceCluster, classes: Mapping[str, InferenceClass]
) -> Desired | Rejected:
    """Return the cluster to compose, or why it cannot be.

    ``classes`` has the class of every pool, by name.
    """
    problems = list(_problems(recipe, cluster, classes))
    if problems:
        return Rejected(detail=in_order(problems, separator="; "))
    kind = kind_of(recipe.type)
    settings = msgspec.to_builtins(getattr(cluster.spec.cluster, recipe.settings))
    pools = [_pool(recipe, pool, classes[pool.class_name]) for pool in cluster.spec.node_pools]
    manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": cluster.metadata.name, "namespace": SYSTEM_NAMESPACE},
        "spec": {**settings, "nodePools": pools},
    }
    try:
        decode_as(recipe.type, manifest)
    except InvalidObject as error:
        return Rejected(
            subject=str(recipe.kind),
            detail=f"does not accept {error.path}: {error.cause}",
            remedy="correct it in nodePools",
        )
    return Desired(recipe.key, manifest, when_condition(READY))


def _problems(
    recipe: Recipe, cluster: InferenceCluster, classes: Mapping[str, InferenceClass]
) -> Iterator[str]:
    if not cluster.spec.node_pools:
        yield f"a cluster with source {recipe.source} requires at least one pool: add one to nodePools"
    for pool in cluster.spec.node_pools:
        fabric = pool.build_interconnect().type
        if fabric is not FabricType.NONE and fabric not in recipe.fabrics:
            yield f'pool "{pool.name}": {recipe.source} does not support fabric {fabric}: remove it'
        if pool.capacity_block and recipe.source not in _CAPACITY_BLOCKS:
            yield (
                f'pool "{pool.name}": {recipe.source} does not support capacity blocks: remove capacityBlock'
            )
        if pool.spot and recipe.source in _WITHOUT_SPOT:
            yield f'pool "{pool.name}": {recipe.source} does not support spot nodes: remove spot'
        yield from (f'pool "{pool.name}": {problem}' for problem in recipe.pool_problems(pool))
        if _recipe_fields(recipe, pool, classes[pool.class_name]) is None:
            yield (
                f'pool "{pool.name}": InferenceClass "{pool.class_name}" has no '
                f"provisioning.{recipe.settings}: add it, or use another class"
            )


def _recipe_fields(recipe: Recipe, pool: NodePool, class_: InferenceClass) -> Mapping[str, Any] | None:
    of_class = getattr(class_.spec.provisioning, recipe.settings, None)
    return None if of_class is None else recipe.pool(pool, of_class)


def _pool(recipe: Recipe, pool: NodePool, class_: InferenceClass) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": pool.name,
        "role": str(PoolRole.GPU),
        **_size(recipe, pool),
        **(_recipe_fields(recipe, pool, class_) or {}),
    }
    if pool.zones:
        written["zones"] = list(pool.zones)
    if pool.taints:
        written["taints"] = msgspec.to_builtins(pool.taints)
    if pool.spot:
        written["spot"] = True
    return written


def _size(recipe: Recipe, pool: NodePool) -> dict[str, int]:
    """Return the number of nodes of a pool, and its bounds. A pool without a maximum keeps its size."""
    most = pool.node_count if pool.max_node_count is None else pool.max_node_count
    fewest = most if pool.max_node_count is None else pool.min_node_count or 0
    size = {"nodeCount": min(max(pool.node_count, fewest), most)}
    if recipe.source in _WITHOUT_BOUNDS and pool.max_node_count is None:
        return size
    if recipe.source in _WITHOUT_BOUNDS and pool.min_node_count is None:
        return {**size, "maxNodeCount": most}
    return {**size, "minNodeCount": fewest, "maxNodeCount": most}


def progress(cluster: Object | None, recipe: Recipe, name: str) -> str | None:
    """Return why a cluster is not ready yet; None if it is."""
    what = f'{recipe.kind} "{name}" in namespace "{SYSTEM_NAMESPACE}"'
    if cluster is None:
        return f"{what} is being created"
    conditions = {condition["type"]: condition for condition in get_list(cluster, "status", "conditions")}
    if conditions.get(READY, {}).get("status") == "True":
        return None
    found = (conditions.get(type_, {}) for type_ in (CloudClusterCondition.CLUSTER_READY, READY, SYNCED))
    said = next((item["message"] for item in found if item.get("message")), "not ready yet")
    return f"{what}: {said}"
