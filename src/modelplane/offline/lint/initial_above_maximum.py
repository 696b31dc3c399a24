"""Pools that start with more nodes than autoscaling allows."""

from collections.abc import Iterator
from typing import Any

from modelplane.offline.lint.advice import Advice


def check(cluster: Any) -> Iterator[Advice]:
    """Warn of pools that start with more nodes than autoscaling allows."""
    for index, pool in enumerate(cluster.spec.node_pools):
        most = pool.max_node_count
        if most and pool.node_count > most:
            message = (
                f"nodeCount {pool.node_count} is greater than maxNodeCount {most}: "
                "raise maxNodeCount, or lower nodeCount"
            )
            yield Advice(("spec", "nodePools", index, "nodeCount"), message)
