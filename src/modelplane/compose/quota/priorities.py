"""Priorities of deployments, where DeviceQuotas allow any.

A priority is a PriorityClass that the DeviceQuota of the namespace lists. A namespace without a quota has
none: otherwise the way to the highest priority would be to have no quota. While no quota lists one, no
deployment is read for the placement of another.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api.conditions.reasons import CommonCondition, SyncedReason
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.names import check_reserved
from modelplane.api.schema.decode import InvalidObject
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.deployment import fleet_snapshot, preferred
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.memo import per_version
from modelplane.compose.quota import scheduler_quotas
from modelplane.compose.readable import readable
from modelplane.compose.readiness import condition_of

# Not the key of those that a standby reads, which are of its namespace only.
_DEPLOYMENTS: Final = Requirement("all-deployments", API_VERSION, kind_name(ModelDeployment), triggers=False)
_PATIENCE: Final = timedelta(minutes=2)
"""Time for which a deployment whose reconcile fails still comes before others."""

_CACHES: Final = Requirement("caches", API_VERSION, kind_name(ModelCache), triggers=False)


def further(find: Callable[[Requirement], tuple[Object, ...] | Unknown]) -> tuple[Requirement, ...]:
    """Return what a placement requires in addition where priorities are in use."""
    found = find(scheduler_quotas.QUOTAS)
    if isinstance(found, Unknown) or not any(scheduler_quotas.quota(item).priority_classes for item in found):
        return ()
    return _DEPLOYMENTS, _CACHES


def of(source: ModelDeployment, known: Mapping[str, scheduler.Quota]) -> scheduler.Priority:
    """Return the priority of a deployment, or why its PriorityClass does not count.

    `known` has the quota of each namespace.
    """
    name, namespace = source.spec.priority_class_name, source.metadata.namespace
    if not name:
        return scheduler.Priority()
    quota = known.get(namespace)
    if quota is not None and name in quota.priorities:
        may_preempt = quota.preempts and name in quota.preempting
        return scheduler.Priority(name, quota.priorities[name], may_preempt)
    if quota is None:
        problem = (
            f'PriorityClass "{name}" needs a DeviceQuota that names namespace {namespace} and allows it: '
            "create one, or remove priorityClassName"
        )
    elif name not in quota.priority_classes:
        problem = (
            f'DeviceQuota "{quota.name}" does not allow PriorityClass "{name}": add it to '
            "priorityClassNames, or correct priorityClassName"
        )
    else:
        problem = (
            f'DeviceQuota "{quota.name}" has not found PriorityClass "{name}": create it, or correct '
            "priorityClassName"
        )
    return scheduler.Priority(name, problem=problem)


def others(
    request: DeploymentRequest, known: Mapping[str, scheduler.Quota]
) -> tuple[scheduler.Deployment, ...]:
    """Return the other deployments of the fleet; none where no priorities are in use.

    One that cannot be read, as all of them if they cannot be listed, comes before no other and loses nothing:
    a tenant's object must not stop the placements of the rest.
    """
    footprints = _footprints(request.found(_CACHES.key))
    uid = request.owner.metadata.uid
    return tuple(
        _described(row, known, footprints)
        for item in request.found(_DEPLOYMENTS.key)
        if item["metadata"].get("uid") != uid
        for row in _read(item)
        if _is_composed(item, request.now)
    )


@per_version
def _read(item: Mapping[str, Any]) -> tuple[tuple[ModelDeployment, scheduler.Deployment], ...]:
    """Return a deployment in both forms, without its cache and priority; empty if it cannot be read.

    A standby that is not active asks for no replica, so it keeps nothing waiting.
    """
    return tuple(
        (owner, replace(fleet_snapshot.deployment(owner, None), replicas=preferred.wanted_now(owner)))
        for owner in readable(ModelDeployment)(item)
    )


def _is_composed(item: Object, now: datetime | None) -> bool:
    """Return True unless no reconcile would place a deployment now, so that it must keep nothing waiting."""
    metadata = item["metadata"]
    if "deletionTimestamp" in metadata or check_reserved(metadata["namespace"]):
        return False
    synced = condition_of(item, CommonCondition.SYNCED)
    if synced.get("status") != "False":
        return True
    since = synced.get("lastTransitionTime", "")
    has_time = now is None or not since or now - datetime.fromisoformat(since) < _PATIENCE
    return synced.get("reason") != SyncedReason.RECONCILE_PAUSED and has_time


def _described(
    read: tuple[ModelDeployment, scheduler.Deployment],
    known: Mapping[str, scheduler.Quota],
    footprints: Mapping[tuple[str, str], scheduler.CacheFootprint],
) -> scheduler.Deployment:
    source, plain = read
    name = source.replica_template().model_cache_name
    cache = footprints.get((source.metadata.namespace, name), _UNKNOWN) if name else None
    return replace(plain, cache=cache, priority=of(source, known))


_UNKNOWN: Final = scheduler.CacheFootprint(known=False)


def _footprints(found: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], scheduler.CacheFootprint]:
    footprints = {}
    for entry in found:
        try:
            footprint = fleet_snapshot.footprint((entry,))
        except InvalidObject:
            continue  # its deployments wait, so they come before no other
        footprints[entry["metadata"]["namespace"], entry["metadata"]["name"]] = footprint
    return footprints
