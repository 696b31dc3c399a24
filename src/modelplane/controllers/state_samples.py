"""Samples of the objects' state, read at scrape time: deleted objects have none.

The scheduler's accounting decides what is used of a pool; nothing is counted a second time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from modelplane import scheduler
from modelplane.api.conditions.reasons import (
    InferenceAutoscalerCondition,
    InferenceClusterCondition as Type,
    InferenceClusterReason as Reason,
    ModelDeploymentCondition,
    ModelDeploymentReason,
)
from modelplane.api.device_quota import DeviceQuota
from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import InvalidObject
from modelplane.compose.conditions import READY
from modelplane.compose.deployment import scheduler_input, standby
from modelplane.compose.readiness import condition_of
from modelplane.telemetry import metric_definitions
from modelplane.telemetry.metric_definitions import Metric, Sample

_WAITING = frozenset({ModelDeploymentReason.QUOTA_EXCEEDED, ModelDeploymentReason.QUOTA_UNKNOWN})
"""Reasons of a deployment whose replicas are not placed because of its quota."""

_PROBLEMS: Final = {
    "stale": (Reason.CAPACITY_STALE, Reason.NOT_OBSERVED),
    "overcommitted": (Reason.OVERCOMMITTED,),
    "drifted": (Reason.DRIFTED,),
}
"""Each problem, with the reasons that tell it."""
_READY = {"True": "true", "False": "false"}
_UNKNOWN = "unknown"
_STOPPED = frozenset(
    {
        ModelDeploymentReason.CANARY_ABORTED,
        ModelDeploymentReason.CANARY_HOLDS,
        ModelDeploymentReason.CANARY_UNSUPPORTED,
    }
)


def quota_samples(quotas: Iterable[Object], deployments: Iterable[Object]) -> Iterator[Sample]:
    """Yield the use of each quota, and the replicas of its namespaces that wait for it."""
    waiting = _waiting(deployments)
    for quota in quotas:
        name = quota["metadata"]["name"]
        yield from _devices(quota)
        for namespace in quota["spec"].get("namespaces", ()):
            yield Sample(metric_definitions.QUOTA_WAITING, (name, namespace), waiting[namespace])


def _devices(quota: Object) -> Iterator[Sample]:
    """Yield the devices of each class, as the status of the quota counts them."""
    limits = quota["spec"].get("classes", ())
    for row in quota.get("status", {}).get("classes", ()):
        of_class, device = row["className"], row.get("deviceName", "")
        nominal = [
            limit["nominalQuota"]
            for limit in limits
            if limit["className"] == of_class and limit.get("deviceName", "") in ("", device)
        ]
        names = (quota["metadata"]["name"], of_class, device)
        counts = {"used": row.get("used", 0), "borrowed": row.get("borrowed", 0)}
        # Between an edit and the next status, a class may be in one of them only.
        for state, count in {**({"nominal": nominal[-1]} if nominal else {}), **counts}.items():
            yield Sample(metric_definitions.QUOTA_DEVICES, (*names, state), count)


def _waiting(deployments: Iterable[Object]) -> Counter[str]:
    """Return the replicas that are not placed because of a quota, by namespace."""
    found: Counter[str] = Counter()
    for deployment in deployments:
        if condition_of(deployment, ModelDeploymentCondition.REPLICAS_SCHEDULED).get("reason") in _WAITING:
            placed = deployment.get("status", {}).get("replicas", {}).get("total", 0)
            found[deployment["metadata"]["namespace"]] += max(standby.desired(deployment) - placed, 0)
    return found


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


@dataclass(frozen=True, slots=True)
class Queue:
    """Numbers of waiting and of running items of a queue."""

    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class ControllersState:
    """State of the controllers: queues, reachability of clusters, objects of each kind.

    A kind whose objects have not been listed yet is absent, unlike a kind without objects.
    """

    queues: Mapping[str, Queue] = field(default_factory=dict)
    reachable: Mapping[str, bool] = field(default_factory=dict)
    objects: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    expiries: Mapping[str, datetime] = field(default_factory=dict)
    """The time at which each certificate of the gateway expires, by the name of its Secret."""
    cluster_states: Mapping[str, str] = field(default_factory=dict)
    """The state of every cluster; empty while no deployment has failover."""
    failover_paused: bool | None = None
    """True while the breaker stops replacements; None while no deployment has failover."""


def samples(state: ControllersState) -> Iterator[Sample]:
    """Yield every sample that a state gives."""
    for name, queue in state.queues.items():
        yield Sample(metric_definitions.QUEUE_DEPTH, (name,), queue.waiting)
        yield Sample(metric_definitions.QUEUE_RUNNING, (name,), queue.running)
    for name, reachable in state.reachable.items():
        yield Sample(metric_definitions.CLUSTER_REACHABLE, (name,), reachable)
    for name, standing in state.cluster_states.items():
        yield Sample(metric_definitions.CLUSTER_STATE, (name, standing), 1)
    if state.failover_paused is not None:
        yield Sample(metric_definitions.FAILOVER_PAUSED, (), state.failover_paused)
    for name, expires in state.expiries.items():
        yield Sample(metric_definitions.CERTIFICATE_EXPIRY, (name,), expires.timestamp())
    yield from _of_objects(state.objects)


def _of_objects(objects: Mapping[str, Sequence[Object]]) -> Iterator[Sample]:
    for kind, found in objects.items():
        yield from _readiness(kind, found)
    clusters, replicas = objects.get(kind_name(InferenceCluster)), objects.get(kind_name(ModelReplica))
    for cluster in clusters or ():
        yield from lost_capacity(cluster)
        yield from evictions(cluster)
    for replica in replicas or ():
        yield from unhealthy_devices(replica)
    deployments = objects.get(kind_name(ModelDeployment))
    for deployment in deployments or ():
        yield from _replicas(deployment)
        yield from _stopped(deployment)
        yield from on_spot(deployment)
    if deployments is not None:
        yield from quota_samples(objects.get(kind_name(DeviceQuota), ()), deployments)
    for autoscaler in objects.get(kind_name(InferenceAutoscaler), ()):
        yield from _autoscaler(autoscaler)
    if clusters is not None and replicas is not None:
        yield from _hardware(clusters, replicas)


def _readiness(kind: str, found: Iterable[Object]) -> Iterator[Sample]:
    counts = dict.fromkeys((*_READY.values(), _UNKNOWN), 0)
    for item in found:
        counts[_READY.get(condition_of(item, READY).get("status", ""), _UNKNOWN)] += 1
    for ready, count in counts.items():
        yield Sample(metric_definitions.OBJECTS, (kind, ready), count)


def _replicas(deployment: Object) -> Iterator[Sample]:
    name = (deployment["metadata"]["namespace"], deployment["metadata"]["name"])
    desired = standby.desired(deployment)
    counts = deployment.get("status", {}).get("replicas", {})
    placed = counts.get("total", 0)
    for state, count in {
        "desired": desired,
        "placed": placed,
        "ready": counts.get("ready", 0),
        "updated": counts.get("updated", 0),
    }.items():
        yield Sample(metric_definitions.REPLICAS, (*name, state), count)
    if "standbyFor" in deployment["spec"]:
        yield Sample(metric_definitions.STANDBY_ACTIVE, name, not standby.explain_idle(deployment))
    if placed < desired:
        scheduled = condition_of(deployment, ModelDeploymentCondition.REPLICAS_SCHEDULED)
        yield Sample(
            metric_definitions.UNSCHEDULABLE, (*name, scheduled.get("reason", "Unknown")), desired - placed
        )


def _stopped(deployment: Object) -> Iterator[Sample]:
    reason = condition_of(deployment, ModelDeploymentCondition.PROGRESSING).get("reason", "")
    if reason in _STOPPED:
        metadata = deployment["metadata"]
        yield Sample(metric_definitions.CANARY_STOPPED, (metadata["namespace"], metadata["name"], reason), 1)


def _autoscaler(autoscaler: Object) -> Iterator[Sample]:
    name = (autoscaler["metadata"]["namespace"], autoscaler["metadata"]["name"])
    active = condition_of(autoscaler, InferenceAutoscalerCondition.SCALING_ACTIVE)
    if active.get("status") != "True":
        yield Sample(metric_definitions.AUTOSCALER_INERT, (*name, active.get("reason", "Unknown")), 1)
    limited = condition_of(autoscaler, InferenceAutoscalerCondition.SCALING_LIMITED)
    if limited.get("status") == "True":
        yield Sample(metric_definitions.AUTOSCALER_LIMITED, (*name, limited["reason"]), 1)


def _hardware(clusters: Iterable[Object], replicas: Iterable[Object]) -> Iterator[Sample]:
    readable, unreadable = [], 0
    for replica in replicas:
        try:
            readable.append(scheduler_input.read_replica(replica))
        except InvalidObject:
            unreadable += 1
    yield Sample(metric_definitions.UNREADABLE, (), unreadable)
    if unreadable:
        return
    known = {cluster.name: cluster for cluster in map(scheduler_input.read_cluster, clusters)}
    devices = {
        (cluster.name, pool.name): pool.devices for cluster in known.values() for pool in cluster.pools
    }
    for usage in scheduler.sum_usage(scheduler.Fleet(tuple(known.values()), tuple(readable))):
        pool = (usage.cluster, usage.pool)
        if usage.accounting is scheduler.Accounting.DEVICES:
            for amount in usage.amounts:
                yield from _amount(metric_definitions.DEVICES, (*pool, amount.name), amount, usage.observed)
            continue
        for amount in usage.amounts:
            yield from _amount(metric_definitions.NODES, pool, amount, usage.observed)
            for device in devices[pool]:
                numbers = (number * device.count for number in (amount.total, amount.taken, amount.usable))
                yield from _amount(
                    metric_definitions.DEVICES,
                    (*pool, device.name),
                    scheduler.Amount(device.name, *numbers),
                    usage.observed,
                )


def _amount(
    metric: Metric, labels: tuple[str, ...], amount: scheduler.Amount, is_observed: bool
) -> Iterator[Sample]:
    yield Sample(metric, (*labels, "total"), amount.total)
    if is_observed:
        yield Sample(metric, (*labels, "usable"), amount.usable)
    yield Sample(metric, (*labels, "used"), amount.taken)
    yield Sample(metric, (*labels, "free"), amount.free)


def evictions(cluster: Object) -> Iterator[Sample]:
    """Yield the notices of a cluster's nodes, and its pools that are blocked."""
    name, status = cluster["metadata"]["name"], cluster.get("status") or {}
    for pool, count in Counter(notice["pool"] for notice in status.get("evictionNotices", ())).items():
        yield Sample(metric_definitions.EVICTION_NOTICES, (name, pool), count)
    for pool in status.get("gpuPools", ()):
        if pool.get("blockedUntil"):
            yield Sample(metric_definitions.POOL_BLOCKED, (name, pool["name"]), 1)


def on_spot(deployment: Object) -> Iterator[Sample]:
    """Yield the replicas of a deployment that are on spot pools."""
    metadata, status = deployment["metadata"], deployment.get("status") or {}
    if count := (status.get("replicas") or {}).get("spot", 0):
        yield Sample(metric_definitions.SPOT_REPLICAS, (metadata["namespace"], metadata["name"]), count)
