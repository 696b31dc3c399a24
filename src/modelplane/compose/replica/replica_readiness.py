"""Readiness of a replica: every engine serves, and what leads to them does too."""

from collections.abc import Iterable, Mapping
from typing import Final

from modelplane.api.conditions.reasons import ModelReplicaCondition as Type
from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.pods.engines import Phase
from modelplane.api.listing import format_subject
from modelplane.api.meta import Object
from modelplane.api.model_replica import PlacedEngine
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.readiness import is_ready, refusal
from modelplane.compose.replica import gang_failures, pod_problems
from modelplane.compose.replica.backends.picker_workload import PICKER_KEY
from modelplane.compose.replica.backends.replica_routes import POOL_KEY, ROUTE_KEY, picks
from modelplane.compose.replica.replica_facts import ReplicaRequest
from modelplane.compose.workload_kinds import row_of
from modelplane.compose.workload_readiness import Reported

PICKER_PODS: Final = "picker-pods"
"""Key of the requirement for the pods of the endpoint picker."""


def readiness(request: ReplicaRequest, workloads: Mapping[str, Object | None]) -> Condition:
    """Return whether a replica serves, by its workloads as observed, and if not the first cause."""
    replica = request.owner
    where = f'cluster "{replica.spec.cluster_name}"'
    idle = _idle(request, workloads)
    if idle:
        message = f"{format_subject('engine', idle, 'is', 'are')} not serving yet on {where}"
        troubles = [gang_failures.trouble(request, name) for name in idle]
        troubles += [pod_problems.unmade(child) for name in idle if (child := workloads[name]) is not None]
        return _starting(message, troubles)
    for key in (POOL_KEY, ROUTE_KEY):
        child = request.observed.get(key)
        if child is not None and (why := refusal(child)):
            return _starting(
                f'the gateway of {where} refuses {child["kind"]} "{child["metadata"]["name"]}": {why}'
            )
    picker = request.observed.get(PICKER_KEY)
    if not picks(replica) or (picker is not None and is_ready(picker)):
        return true(Type.MODEL_READY, Reason.SERVING, f"every engine serves on {where}")
    # Some gateways answer 500 without a picker, whatever the pool says of failure.
    message = f"no endpoint picker is running on {where}"
    troubles = [pod_problems.trouble(request.found(PICKER_PODS))]
    return _starting(message, [*troubles, pod_problems.unmade(picker) if picker is not None else None])


def _idle(request: ReplicaRequest, workloads: Mapping[str, Object | None]) -> list[str]:
    """Return the names of the engines that do not serve, in order."""
    engines = {engine.name: engine for engine in request.owner.spec.engines}
    idle = sorted(
        name
        for name, child in workloads.items()
        if child is None or not is_ready(child) or gang_failures.is_leaving(request, engines[name])
    )
    # Two engines may share a workload, of which one serves.
    return [name for name in idle if not _serves_alone(workloads[name], engines[name])] or idle


def _serves_alone(workload: Object | None, engine: PlacedEngine) -> bool:
    row = row_of(workload) if workload is not None else None
    if workload is None or row is None or not isinstance(row.ready, Reported):
        return False
    return row.ready.serves(workload, "prefill" if engine.phase is Phase.PREFILL else "primary")


def _starting(message: str, troubles: Iterable[str | None] = ()) -> Condition:
    trouble = next(filter(None, troubles), None)
    return false(Type.MODEL_READY, Reason.MODEL_STARTING, f"{message}: {trouble}" if trouble else message)
