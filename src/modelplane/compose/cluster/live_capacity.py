"""Live capacity of an InferenceCluster with ``capacitySource: Observed``.

What is declared is lowered by what is observed (``observed_capacity``). Nothing is lowered on doubt: while
something cannot be read, the last known capacity stays, or else the declared one, and a condition says so.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from modelplane import scheduler
from modelplane.api import labels
from modelplane.api.conditions.reasons import (
    InferenceClusterCondition as Type,
    InferenceClusterReason as Reason,
)
from modelplane.api.fields.cluster.usable_capacity import CapacitySource
from modelplane.api.inference_cluster import GPUPool, InferenceCluster
from modelplane.api.listing import in_order
from modelplane.api.meta import API_VERSION, kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import InvalidObject, convert, decode_as
from modelplane.compose.cluster import capacity_status
from modelplane.compose.cluster.capacity_facts import facts_of
from modelplane.compose.cluster.cluster_facts import ClusterRequest
from modelplane.compose.cluster.observed_capacity import Cluster, Observation, observe
from modelplane.compose.composition import Blocked, Requirement
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.deployment import scheduler_input

NODES: Final = "nodes"
"""Key of the requirement for the nodes of the cluster."""

_SLICES, _CLAIMS, _RULES = "slices", "claims", "rules"
_REPLICAS, _UNHEALTHY = "replicas", "unhealthy"
_READ: Final = {
    NODES: ("v1", "Node"),
    _SLICES: ("resource.k8s.io/v1", "ResourceSlice"),
    _CLAIMS: ("resource.k8s.io/v1", "ResourceClaim"),
    _RULES: ("resource.k8s.io/v1alpha3", "DeviceTaintRule"),
}
_REMEDY: Final = "apply the output of `modelplane install --inference-cluster` to the cluster again"
UNREADABLE: Final = f" (if a permission is missing, {_REMEDY})"
"""Remedy for objects of a cluster that cannot be read, within a sentence."""

_OPTIONAL: Final = frozenset({_RULES})
"""Kinds that a cluster need not have, and whose permission an earlier registration did not grant."""
_SHOWN: Final = 8
"""Pools, or differences, in a message: as many pools as a cluster has."""


class Report(msgspec.Struct, frozen=True):
    """The pools of the status with their usable capacity, conditions, and when to look again."""

    pools: Sequence[Mapping[str, Any]]
    conditions: tuple[Condition, ...] = ()
    again_in_s: float | None = None
    status: Mapping[str, Any] = {}
    """Further fields of the status."""


def requirements(cluster: InferenceCluster) -> tuple[Requirement, ...]:
    """Return what capacity is observed from; nothing if it is declared.

    Changes of replicas trigger nothing, because claims follow them, unless devices of theirs are unhealthy.
    """
    if cluster.spec.capacity_source is CapacitySource.DECLARED:
        return ()
    name = cluster.metadata.name
    return (
        *(Requirement(key, *kind, cluster=name) for key, kind in _READ.items()),
        Requirement(
            _REPLICAS, API_VERSION, kind_name(ModelReplica), labels={labels.CLUSTER: name}, triggers=False
        ),
        Requirement(
            _UNHEALTHY,
            API_VERSION,
            kind_name(ModelReplica),
            labels={labels.CLUSTER: name},
            with_status="unhealthyDevices",
        ),
    )


def report(request: ClusterRequest, pools: Sequence[Mapping[str, Any]]) -> Report:
    """Return published pools with what new replicas may use of them."""
    declared = [{key: value for key, value in pool.items() if key != "usable"} for pool in pools]
    if request.owner.spec.capacity_source is CapacitySource.DECLARED:
        return Report(declared)
    if request.now is None or not request.facts.observes_capacity:
        message = (
            "using the capacity in nodePools, because only Modelplane's controllers observe clusters: set "
            "capacitySource to Declared"
        )
        return Report(declared, (false(Type.CAPACITY_OBSERVED, Reason.NOT_OBSERVED, message),))
    now = int(request.now.timestamp())
    read = [convert(pool, GPUPool) for pool in declared]
    observed = _observed(request, read)
    before = {pool.name: pool.usable for pool in request.owner.status.gpu_pools}
    result = []
    for pool in read:
        found, known = observed[pool.name], before.get(pool.name)
        usable = known if isinstance(found, Blocked) else capacity_status.published(pool, found, known, now)
        result.append(msgspec.structs.replace(pool, usable=usable))
    clear = {name for name, observation in observed.items() if isinstance(observation, Observation)}
    due = [
        pool.usable.rises_at.timestamp()
        for pool in result
        if pool.name in clear and pool.usable and pool.usable.rises_at
    ]
    waits = [max(min(due) - now, 1.0)] if due else []
    # A replica whose devices have recovered triggers nothing.
    waits += [float(capacity_status.SETTLES_S)] if request.found(_UNHEALTHY) else []
    return Report(
        [
            {**given, **({"usable": msgspec.to_builtins(pool.usable)} if pool.usable else {})}
            for given, pool in zip(declared, result, strict=True)
        ],
        (_condition(request, result, observed), _overcommitted(request, result)),
        min(waits, default=None),
    )


def _observed(request: ClusterRequest, pools: Sequence[GPUPool]) -> dict[str, Observation | Blocked]:
    for key, (_, kind) in _READ.items():
        if (unknown := request.unknown(key)) and not (key in _OPTIONAL and unknown.forbidden):
            cause = f"cannot list {kind}s of the cluster{UNREADABLE}: {unknown.cause}"
            return {pool.name: Blocked(cause) for pool in pools}
    try:
        given = _list_allocated(scheduler_input.read_replica(item) for item in request.found(_REPLICAS))
        reports = _reports(decode_as(ModelReplica, item) for item in request.found(_UNHEALTHY))
    except InvalidObject as error:
        return {pool.name: Blocked(str(error)) for pool in pools}
    nodes, slices, claims, rules = (facts_of(request.found(key)) for key in _READ)
    cluster = Cluster(nodes, slices, claims, given, rules, reports)
    declared = {pool.name: pool for pool in request.owner.spec.node_pools}
    return {pool.name: observe(declared[pool.name], pool.devices, cluster) for pool in pools}


def _list_allocated(replicas: Iterable[scheduler.Replica]) -> Counter[tuple[str, str]]:
    """Return the devices that replicas were given, by pool and namespace."""
    given: Counter[tuple[str, str]] = Counter()
    for replica in replicas:
        for engine in replica.engines:
            for member in engine.members:
                claimed = sum(claim.count for claim in member.claims)
                given[member.pool, replica.namespace] += claimed * member.pods * engine.copies
    return given


def _reports(replicas: Iterable[ModelReplica]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the unhealthy devices of the pods of replicas, by namespace and name of the pod."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for replica in replicas:
        for device in replica.status.unhealthy_devices:
            pod = (replica.metadata.namespace, device.pod)
            found[pod] = (*found.get(pod, ()), device.device)
    return found


def _condition(
    request: ClusterRequest, pools: Sequence[GPUPool], observed: Mapping[str, Observation | Blocked]
) -> Condition:
    unclear = {blocked.cause: pool for pool in pools if isinstance(blocked := observed[pool.name], Blocked)}
    if not unclear:
        summaries = [capacity_status.summary(pool, pool.usable) for pool in pools if pool.usable]
        message = in_order(summaries, _SHOWN, "; ")
        if unread := [_READ[key][1] for key in sorted(_OPTIONAL) if request.unknown(key)]:
            kinds = ", ".join(f"{kind}s" for kind in unread)
            message += f". {kinds} can't be listed, so device taints are ignored: {_REMEDY}"
        if drift := _describe_drift(observed):
            return true(Type.CAPACITY_OBSERVED, Reason.DRIFTED, f"{message}. {drift}")
        return true(Type.CAPACITY_OBSERVED, Reason.OBSERVED, message)
    causes = [
        f'pool "{pool.name}" keeps its {"last known" if pool.usable else "declared"} capacity: {cause}'
        for cause, pool in unclear.items()
    ]
    message = in_order(causes, _SHOWN, "; ")
    if drift := _describe_drift(observed):
        message += f". {drift}"
    return false(Type.CAPACITY_OBSERVED, Reason.CAPACITY_STALE, message)


def _overcommitted(request: ClusterRequest, pools: Sequence[GPUPool]) -> Condition:
    type_ = Type.CAPACITY_OVERCOMMITTED
    try:
        replicas = tuple(scheduler_input.read_replica(item) for item in request.found(_REPLICAS))
    except InvalidObject as error:
        return false(type_, Reason.CAPACITY_UNKNOWN, f"unknown: {error}")
    cluster = scheduler.Cluster(
        request.owner.metadata.name, pools=tuple(map(scheduler_input.read_pool, pools))
    )
    found = scheduler.list_overcommitted(scheduler.Fleet((cluster,), replicas))
    if not found:
        return false(type_, Reason.WITHIN_CAPACITY, "replicas use no more than the usable capacity")
    message = f"{in_order(found, _SHOWN, '; ')}. They keep running, and pods that restart may remain Pending"
    return true(type_, Reason.OVERCOMMITTED, message)


def _describe_drift(observed: Mapping[str, Observation | Blocked]) -> str | None:
    """Return how devices differ from their classes; None if they do not."""
    found = [
        f'pool "{name}": {text}'
        for name, observation in observed.items()
        if isinstance(observation, Observation)
        for text in observation.drift
    ]
    return f"{in_order(found, _SHOWN, '; ')}. Correct the InferenceClass, or the nodes" if found else None
