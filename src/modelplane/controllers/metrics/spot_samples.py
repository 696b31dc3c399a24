"""Samples of spot pools and notices of eviction, read from the status of objects."""

from collections import Counter
from collections.abc import Iterator

from modelplane.api.meta import Object
from modelplane.telemetry import metric_definitions
from modelplane.telemetry.metric_definitions import Sample


def evictions(cluster: Object) -> Iterator[Sample]:
    """Yield the notices of a cluster's nodes, and its pools that are blocked."""
    name, status = cluster["metadata"]["name"], cluster.get("status") or {}
    noticed = Counter(notice["pool"] for notice in status.get("evictionNotices", ()))
    for pool, count in noticed.items():
        yield Sample(metric_definitions.EVICTION_NOTICES, (name, pool), count)
    for pool in status.get("gpuPools", ()):
        if pool.get("blockedUntil"):
            yield Sample(metric_definitions.POOL_BLOCKED, (name, pool["name"]), 1)


def on_spot(deployment: Object) -> Iterator[Sample]:
    """Yield the replicas of a deployment that are on spot pools."""
    metadata, status = deployment["metadata"], deployment.get("status") or {}
    if count := (status.get("replicas") or {}).get("spot", 0):
        yield Sample(metric_definitions.SPOT_REPLICAS, (metadata["namespace"], metadata["name"]), count)
