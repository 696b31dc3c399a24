"""Failures of gangs.

A LeaderWorkerSet deletes all pods of a group as soon as one of their containers is started again, and has no
back-off. So no pod waits in CrashLoopBackOff, and what the container said is gone with its pod. The status of
the replica keeps the last failure until the engine serves, and counts them.
"""

import datetime as dt
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from modelplane.api import labels
from modelplane.api.model_replica import MAX_MESSAGE, EngineFailure, ModelReplica, PlacedEngine
from modelplane.api.schema.untyped import get_map
from modelplane.compose.readiness import is_ready
from modelplane.compose.replica import pod_problems
from modelplane.compose.replica.backends.gang import is_gang
from modelplane.compose.replica.backends.table import workload_key
from modelplane.compose.replica.replica_facts import ReplicaRequest
from modelplane.compose.replica.replica_status import pods_of


class _Failure(NamedTuple):
    at: dt.datetime
    message: str
    created: dt.datetime


def status(request: ReplicaRequest) -> dict[str, Any]:
    """Return the part of a replica's status with the last failure of each gang; empty if there is none."""
    found = _failures(request)
    return {"engineFailures": [msgspec.to_builtins(failure) for failure in found]} if found else {}


def kept(replica: ModelReplica) -> dict[str, Any]:
    """Return the same part as it was last written, while pods are not looked at."""
    known = replica.status.engine_failures
    return {"engineFailures": [msgspec.to_builtins(failure) for failure in known]} if known else {}


def trouble(request: ReplicaRequest, engine: str) -> str | None:
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
