"""Settings for clusters that Modelplane creates, on one that exists."""

from collections.abc import Iterator

from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.fields.cluster.node_pools import CAPACITY_BLOCKS, FabricType
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.offline.lint.advice import Advice


def check(cluster: InferenceCluster) -> Iterator[Advice]:
    """Warn of settings for clusters that Modelplane creates, on one that exists."""
    if cluster.spec.cluster.source is not Source.EXISTING:
        return
    for index, pool in enumerate(cluster.spec.node_pools):
        path = ("spec", "nodePools", index)
        fabric = pool.build_interconnect()
        if pool.capacity_block is not None:
            message = (
                f"capacity blocks apply to {CAPACITY_BLOCKS}, and are ignored with source Existing: "
                "remove capacityBlock"
            )
            yield Advice((*path, "capacityBlock"), message, at_key=True)
        if fabric.type is FabricType.EFA and fabric.name is None:
            message = (
                "EFA is not set up with source Existing, and doesn't connect pools without a name: remove "
                "it, or write an object with type and name"
            )
            yield Advice((*path, "fabric"), message, at_key=True)
