"""Progress of the drain of a cluster or of its pools, as its InferenceCluster reports it.

The replicas move as their ModelDeployments decide (``scheduler.existing.drain``); nothing here moves one.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from modelplane import scheduler
from modelplane.api.conditions.reasons import (
    InferenceClusterCondition as Type,
    InferenceClusterReason as Reason,
    ModelDeploymentCondition,
    ModelDeploymentReason as DeploymentReason,
)
from modelplane.api.fields.cluster.drain_settings import DrainedDeployment, DrainState, DrainStatus
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import InvalidObject
from modelplane.compose.cluster.cluster_facts import ClusterRequest
from modelplane.compose.composition import Requirement
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.deployment import scheduler_input
from modelplane.compose.readiness import condition_of

_REPLICAS: Final = "drain-replicas"
_DEPLOYMENTS: Final = "drain-deployments"
_LISTED: Final = 16
_MESSAGE: Final = 1024
_BLOCKING: Final = (
    DeploymentReason.INSUFFICIENT_CAPACITY,
    DeploymentReason.INVALID_NODE_SELECTOR,
    DeploymentReason.NO_CLUSTERS,
    DeploymentReason.POD_NOT_ACCEPTED,
    DeploymentReason.QUOTA_EXCEEDED,
    DeploymentReason.QUOTA_UNKNOWN,
    DeploymentReason.PRIORITY_REFUSED,
    DeploymentReason.PREEMPTED,
)
_ORDER: Final = (DrainState.BLOCKED, DrainState.MOVING, DrainState.WAITING)


def requirements(cluster: InferenceCluster) -> tuple[Requirement, ...]:
    """Return the requirements of a cluster that drains: the whole fleet's replicas and deployments."""
    if not cluster.is_draining():
        return ()
    return (
        Requirement(_REPLICAS, API_VERSION, kind_name(ModelReplica)),
        Requirement(_DEPLOYMENTS, API_VERSION, kind_name(ModelDeployment)),
    )


def progress(request: ClusterRequest) -> tuple[DrainStatus | None, tuple[Condition, ...]]:
    """Return the progress of a drain, and its condition; nothing if there was never a drain."""
    cluster = request.owner
    if not cluster.is_draining():
        # Crossplane keeps a condition that is not composed any more.
        ended = any(condition.type == Type.DRAINED for condition in cluster.status.conditions)
        return None, (false(Type.DRAINED, Reason.NOT_DRAINING, "the drain was ended"),) if ended else ()
    for key in (_REPLICAS, _DEPLOYMENTS):
        if unknown := request.unknown(key):
            cause = f"cannot list the fleet's {key.removeprefix('drain-')}: {unknown.cause}"
            return cluster.status.drain, (false(Type.DRAINED, Reason.DRAIN_UNKNOWN, cause),)
    try:
        replicas = tuple(map(scheduler_input.read_replica, request.found(_REPLICAS)))
    except InvalidObject as error:
        return cluster.status.drain, (false(Type.DRAINED, Reason.DRAIN_UNKNOWN, str(error)),)
    cluster_now = scheduler_input.read_decoded_cluster(cluster)
    moves = scheduler.list_moving(
        {cluster.metadata.name: cluster_now}, replicas, scheduler_input.stuck_before(request.now)
    )
    status = _status(cluster_now, replicas, request.found(_DEPLOYMENTS), moves)
    return status, (_condition(status),)


def _status(
    cluster: scheduler.Cluster,
    replicas: tuple[scheduler.Replica, ...],
    deployments: tuple[Object, ...],
    moved: list[scheduler.Replica],
) -> DrainStatus:
    left: dict[str, list[scheduler.Replica]] = {}
    for replica in replicas:
        if replica.cluster == cluster.name and scheduler.describe_drain(cluster, replica):
            left.setdefault(replica.deployment_uid, []).append(replica)
    moves = Counter(replica.deployment_uid for replica in moved)
    owners = {deployment["metadata"].get("uid", ""): deployment for deployment in deployments}
    told, moving, blocked = [], 0, 0
    for uid, own in left.items():
        going = moves[uid] + sum(replica.withdrawn for replica in own)
        state, message = _state(owners.get(uid), rest=len(own) - going)
        if state is DrainState.WAITING and (going or not all(replica.ready for replica in own)):
            state = DrainState.MOVING
        elif state is DrainState.WAITING:
            message = "waiting to move"
        blocked += len(own) - going if state is DrainState.BLOCKED else 0
        moving += going
        told.append(
            DrainedDeployment(
                namespace=own[0].namespace,
                name=own[0].deployment_name,
                left=len(own),
                state=state,
                message=message[:_MESSAGE],
            )
        )
    told.sort(key=lambda deployment: (_ORDER.index(deployment.state), deployment.namespace, deployment.name))
    count = sum(map(len, left.values()))
    return DrainStatus(left=count, moving=moving, blocked=blocked, deployments=tuple(told[:_LISTED]))


def _state(owner: Mapping[str, Any] | None, rest: int) -> tuple[DrainState, str]:
    """Return whether the rest of a deployment's replicas is blocked or waits, and what for."""
    if owner is None:
        return DrainState.BLOCKED, "the ModelDeployment does not exist: delete its replicas"
    placed = condition_of(owner, ModelDeploymentCondition.REPLICAS_SCHEDULED)
    if rest and placed.get("reason") in _BLOCKING:
        return DrainState.BLOCKED, str(placed.get("message", ""))
    served = condition_of(owner, ModelDeploymentCondition.REPLICAS_READY)
    return DrainState.WAITING, str(served.get("message", ""))


def _condition(status: DrainStatus) -> Condition:
    if not status.left:
        return true(Type.DRAINED, Reason.DRAINED, "no replicas remain")
    remain = "replica remains" if status.left == 1 else "replicas remain"
    message = f"{status.left} {remain}: {status.moving} moving, {status.blocked} blocked"
    first = status.deployments[0]
    if first.message:
        message += f"; ModelDeployment {first.namespace}/{first.name}: {first.message}"
    return false(Type.DRAINED, Reason.DRAIN_BLOCKED if status.blocked else Reason.DRAINING, message)


def published(status: DrainStatus | None) -> dict[str, Any]:
    """Return the status field of a drain; nothing without one."""
    return {} if status is None else {"drain": msgspec.to_builtins(status)}
