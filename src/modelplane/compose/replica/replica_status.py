"""Status of a ModelReplica: its readiness, the failures of its gangs, and the notices of its nodes.

A notice that a node is taken back stays until the replica serves on nodes without one. So a replica that
lost its pods is still being replaced after their node is gone.

A LeaderWorkerSet deletes all pods of a group as soon as one of their containers is started again, and has no
back-off. So no pod waits in CrashLoopBackOff, and what the container said is gone with its pod. The status of
the replica keeps the last failure until the engine serves, and counts them.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelReplicaCondition as Type, ModelReplicaReason as Reason
from modelplane.api.fields.cluster.node_pools import ReplicaEviction
from modelplane.api.fields.pods.engines import Phase
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import format_subject
from modelplane.api.meta import Object
from modelplane.api.model_replica import MAX_MESSAGE, EngineFailure, ModelReplica, PlacedEngine
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.api.schema.untyped import get_map
from modelplane.compose.composition import Desired, Keep
from modelplane.compose.conditions import Condition, false, state_unless_new, true
from modelplane.compose.facts import ReplicaRequest
from modelplane.compose.memo import per_version
from modelplane.compose.readiness import is_ready, refusal
from modelplane.compose.replica import pod_problems
from modelplane.compose.replica.backends.picker_workload import PICKER_KEY
from modelplane.compose.replica.backends.replica_routes import POOL_KEY, ROUTE_KEY
from modelplane.compose.replica.backends.table import workload_key
from modelplane.compose.replica.backends.workload import is_gang, picks
from modelplane.compose.replica.pod_problems import has_ended
from modelplane.compose.workload_kinds import row_of
from modelplane.compose.workload_readiness import Reported

CLUSTER_KEY = "cluster"
"""Key of the requirement for the replica's InferenceCluster."""

_DECODED_CLUSTERS = 256
"""A replica is composed several times in a row, and each of its neighbours reads the same cluster."""

decoded_cluster = per_version(partial(decode_as, InferenceCluster), _DECODED_CLUSTERS)
"""Returns an InferenceCluster as its type; raises ``InvalidObject``."""


class _Failure(NamedTuple):
    at: dt.datetime
    message: str
    created: dt.datetime


PICKER_PODS: Final = "picker-pods"
"""Key of the requirement for the pods of the endpoint picker."""


def pods_of(engine: str) -> str:
    """Return the key of the requirement for the pods of an engine."""
    return f"pods-{engine}"


def status(request: ReplicaRequest, *, serves: bool = False) -> Object:
    """Return the status of a replica that serves, or does not, or of which that is not known."""
    replica = request.owner
    # A cluster that was written to stays listed until the replica has no objects there.
    found: dict[str, Any] = {"clusters": sorted(set(replica.status.clusters) | {replica.spec.cluster_name})}
    if eviction := _eviction(request, serves=serves):
        found["eviction"] = msgspec.to_builtins(eviction)
    return found


def report_routing(replica: ModelReplica, serves: bool, endpoint: tuple[Desired | Keep, ...]) -> Condition:
    """Return the condition that tells whether services can send the replica requests."""
    if endpoint:
        message = f'ModelEndpoint "{replica.metadata.name}" announces the replica to services'
        return true(Type.ROUTING_READY, Reason.ENDPOINT_CREATED, message)
    if not serves:
        return false(
            Type.ROUTING_READY,
            Reason.NOT_SERVING,
            "services send no requests to the replica until it is serving",
        )
    message = f'the gateway of cluster "{replica.spec.cluster_name}" has no address to announce yet'
    return false(Type.ROUTING_READY, Reason.NO_ADDRESS, message)


def eviction_conditions(request: ReplicaRequest, *, serves: bool) -> tuple[Condition, ...]:
    """Return the condition about the nodes under a replica; none if no notice was ever seen."""
    condition = true(Type.NODES_KEPT, Reason.NODES_KEPT, "none of the replica's nodes has an eviction notice")
    if eviction := _eviction(request, serves=serves):
        message = (
            f'node "{eviction.node}" will be reclaimed by {eviction.deadline:%Y-%m-%dT%H:%M:%SZ} '
            f"({eviction.cause}): the replica is being replaced"
        )
        condition = false(Type.NODES_KEPT, Reason.NODE_EVICTED, message)
    return state_unless_new(condition, request.owner.status)


def failure_status(request: ReplicaRequest) -> dict[str, Any]:
    """Return the part of a replica's status with the last failure of each gang; empty if there is none."""
    found = _failures(request)
    return {"engineFailures": [msgspec.to_builtins(failure) for failure in found]} if found else {}


def keep_failure_status(replica: ModelReplica) -> dict[str, Any]:
    """Return the same part as it was last written, while pods are not looked at."""
    known = replica.status.engine_failures
    return {"engineFailures": [msgspec.to_builtins(failure) for failure in known]} if known else {}


def gang_trouble(request: ReplicaRequest, engine: str) -> str | None:
    """Return the problem of an engine's pods, after its last failure if it is a gang; None if none."""
    found = request.found(pods_of(engine))
    last = next((failure for failure in _failures(request) if failure.engine == engine), None)
    if last is None:
        return pod_problems.trouble(found)
    times = "once" if last.failures == 1 else f"{last.failures} times"
    told = f"{last.message}; failed {times}, and all pods of the engine are replaced each time"
    present = None if any(map(pod_problems.failure, found)) else pod_problems.trouble(found)
    return f"{present}; before, {told}" if present else told


def is_leaving(request: ReplicaRequest, engine: PlacedEngine) -> bool:
    """Return True if every group of a gang has a pod that is being deleted.

    LeaderWorkerSet replaces such a group, and may count it as ready until its pods have ended.
    """
    if not is_gang(engine):
        return False
    groups: dict[str, bool] = {}
    for pod in request.found(pods_of(engine.name)):
        metadata = pod["metadata"]
        group = get_map(metadata, "labels").get(labels.LWS_GROUP, "")
        groups[group] = groups.get(group, False) or "deletionTimestamp" in metadata
    return bool(groups) and all(groups.values())


def readiness(request: ReplicaRequest, workloads: Mapping[str, Object | None]) -> Condition:
    """Return whether a replica serves, by its workloads as observed, and if not the first cause."""
    replica = request.owner
    where = f'cluster "{replica.spec.cluster_name}"'
    engines = {engine.name: engine for engine in replica.spec.engines}
    idle = sorted(
        name
        for name, child in workloads.items()
        if child is None or not is_ready(child) or is_leaving(request, engines[name])
    )
    # Two engines may share a workload, of which one serves.
    idle = [name for name in idle if not _serves_alone(workloads[name], engines[name])] or idle
    if idle:
        message = f"{format_subject('engine', idle, 'is', 'are')} not serving yet on {where}"
        troubles = [gang_trouble(request, name) for name in idle]
        troubles += [pod_problems.unmade(child) for name in idle if (child := workloads[name]) is not None]
        pods = [pod for name in idle for pod in request.found(pods_of(name))]
        return _starting(message, troubles, pod_problems.find_reason(pods))
    for key in (POOL_KEY, ROUTE_KEY):
        child = request.observed.get(key)
        if child is not None and (why := refusal(child)):
            return _starting(
                f'the gateway of {where} rejects {child["kind"]} "{child["metadata"]["name"]}": {why}'
            )
    picker = request.observed.get(PICKER_KEY)
    if not picks(replica) or (picker is not None and is_ready(picker)):
        return true(Type.MODEL_READY, Reason.SERVING, f"every engine serves on {where}")
    # Some gateways answer 500 without a picker, whatever the pool says of failure.
    message = f"no endpoint picker is running on {where}"
    troubles = [pod_problems.trouble(request.found(PICKER_PODS))]
    return _starting(message, [*troubles, pod_problems.unmade(picker) if picker is not None else None])


def _eviction(request: ReplicaRequest, *, serves: bool) -> ReplicaEviction | None:
    notices = _notices(request)
    # A pod that waits, or has ended, is on no node.
    nodes = {
        pod.get("spec", {}).get("nodeName")
        for engine in request.owner.spec.engines
        for pod in request.found(pods_of(engine.name))
        if not has_ended(pod)
    }
    found = next((notice for name, notice in notices.items() if name in nodes), None)
    return found or (None if serves else request.owner.status.eviction)


def _notices(request: ReplicaRequest) -> Mapping[str, ReplicaEviction]:
    """Return the notices of the cluster's nodes, the earliest deadline first."""
    try:
        clusters = [decoded_cluster(item) for item in request.found(CLUSTER_KEY)]
    except InvalidObject:
        return {}
    return {
        notice.node: ReplicaEviction(node=notice.node, cause=notice.cause, deadline=notice.deadline)
        for cluster in clusters
        for notice in cluster.status.eviction_notices
    }


def _failures(request: ReplicaRequest) -> tuple[EngineFailure, ...]:
    gangs = (engine for engine in request.owner.spec.engines if is_gang(engine))
    return tuple(failure for gang in gangs if (failure := _of_engine(request, gang)) is not None)


def _of_engine(request: ReplicaRequest, engine: PlacedEngine) -> EngineFailure | None:
    owner = request.owner
    last = next((failure for failure in owner.status.engine_failures if failure.engine == engine.name), None)
    seen = list(_seen(request, engine.name))
    # Others of a group fail with the first one, and were created before it failed.
    new = [failure for failure in seen if last is None or failure.created > last.failed_at]
    if new:
        first = min(new)
        count = last.failures if last is not None else 0
        return EngineFailure(
            engine=engine.name, message=first.message, failed_at=first.at, failures=count + 1
        )
    workload = request.observed.get(workload_key(owner, engine))
    serves = not seen and workload is not None and is_ready(workload)
    return None if serves else last


def _seen(request: ReplicaRequest, engine: str) -> Iterator[_Failure]:
    for pod in request.found(pods_of(engine)):
        found = pod_problems.failure(pod)
        if found is None:
            continue
        message, at = found
        try:
            created = dt.datetime.fromisoformat(pod["metadata"].get("creationTimestamp", ""))
            told = f'pod "{pod["metadata"]["name"]}": {message}'[:MAX_MESSAGE]
            yield _Failure(dt.datetime.fromisoformat(at), told, created)
        except ValueError:  # without its times, it cannot be told from the last one
            continue


def _serves_alone(workload: Object | None, engine: PlacedEngine) -> bool:
    row = row_of(workload) if workload is not None else None
    if workload is None or row is None or not isinstance(row.ready, Reported):
        return False
    return row.ready.serves(workload, "prefill" if engine.phase is Phase.PREFILL else "primary")


def _starting(message: str, troubles: Iterable[str | None] = (), reason: Reason | None = None) -> Condition:
    trouble = next(filter(None, troubles), None)
    message = f"{message}: {trouble}" if trouble else message
    return false(Type.MODEL_READY, reason or Reason.MODEL_STARTING, message)
