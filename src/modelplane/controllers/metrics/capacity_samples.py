"""Samples of observed capacity and of device health, read from statuses."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from modelplane.api.conditions.reasons import InferenceClusterCondition as Type
from modelplane.api.meta import Object
from modelplane.compose.readiness import condition_of
from modelplane.telemetry import metric_definitions
from modelplane.telemetry.metric_definitions import Sample

_PROBLEMS: Final = {
    "stale": (Type.CAPACITY_OBSERVED, "False"),
    "overcommitted": (Type.CAPACITY_OVERCOMMITTED, "True"),
    "drifted": (Type.CAPACITY_DRIFTED, "True"),
}
"""Each problem, with the condition and the status that tell it."""


def lost_capacity(cluster: Object) -> Iterator[Sample]:
    """Yield what is lost of a cluster's pools, and the problems of its capacity."""
    name = cluster["metadata"]["name"]
    if not condition_of(cluster, Type.CAPACITY_OBSERVED):
        return
    for problem, (type_, status) in _PROBLEMS.items():
        holds = condition_of(cluster, type_).get("status") == status
        yield Sample(metric_definitions.CAPACITY_PROBLEM, (name, problem), holds)
    for pool in cluster["status"].get("gpuPools", ()):
        lost: Counter[tuple[str, str]] = Counter()
        for term in pool.get("usable", {}).get("terms", ()):
            lost[term["name"], term["reason"]] += term["count"]
        for (device, reason), count in lost.items():
            yield Sample(metric_definitions.CAPACITY_LOST, (name, pool["name"], device, reason), count)


def unhealthy_devices(replica: Object) -> Iterator[Sample]:
    """Yield the number of devices of a replica that are reported as unhealthy, if there are any."""
    if found := replica.get("status", {}).get("unhealthyDevices"):
        metadata = replica["metadata"]
        names = (metadata["namespace"], metadata["name"], replica["spec"]["clusterName"])
        yield Sample(metric_definitions.UNHEALTHY_DEVICES, names, len(found))
