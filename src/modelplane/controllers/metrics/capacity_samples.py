"""Samples of observed capacity and of device health, read from statuses."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from modelplane.api.conditions.reasons import InferenceClusterCondition as Type
from modelplane.api.conditions.reasons import InferenceClusterReason as Reason
from modelplane.api.meta import Object
from modelplane.compose.readiness import condition_of
from modelplane.telemetry import metric_definitions
from modelplane.telemetry.metric_definitions import Sample

_PROBLEMS: Final = {
    "stale": (Reason.CAPACITY_STALE, Reason.NOT_OBSERVED),
    "overcommitted": (Reason.OVERCOMMITTED,),
    "drifted": (Reason.DRIFTED,),
}
"""Each problem, with the reasons that tell it."""


def lost_capacity(cluster: Object) -> Iterator[Sample]:
    """Yield what is lost of a cluster's pools, and the problems of its capacity."""
    name = cluster["metadata"]["name"]
    if not condition_of(cluster, Type.CAPACITY_OBSERVED):
        return
    for problem, reasons in _PROBLEMS.items():
        holds = any(condition_of(cluster, reason.type).get("reason") == reason for reason in reasons)
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
