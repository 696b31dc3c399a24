"""DeviceQuotas, and the priorities that they allow, as the scheduler sees them.

A DeviceQuota that cannot be read refuses new replicas of the namespaces that it names, and of all if it does
not say which those are: a limit that is not known is not "no limit". It removes nothing.

A priority is a PriorityClass that the DeviceQuota of the namespace lists. A namespace without a quota has
none: otherwise the way to the highest priority would be to have no quota. While no quota lists one, no
deployment is read for the placement of another.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api.conditions.reasons import CommonCondition, ModelDeploymentReason as Reason, SyncedReason
from modelplane.api.device_quota import SYSTEM_PREFIX, DeviceQuota, PreemptionPolicy
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.names import check_reserved
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.deployment import preferred, scheduler_input
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.memo import per_version, readable
from modelplane.compose.readiness import condition_of

QUOTAS: Final = Requirement("quotas", API_VERSION, kind_name(DeviceQuota), triggers=False)
"""Every DeviceQuota. They matter only while a deployment waits: none moves a replica that is placed."""

_BLOCKS: Final = {
    scheduler.Block.QUOTA: Reason.QUOTA_UNKNOWN,
    scheduler.Block.PRIORITY: Reason.PRIORITY_REFUSED,
}


def of_fleet(request: DeploymentRequest) -> tuple[scheduler.Quota, ...]:
    """Return the quotas of the fleet, in order of name."""
    found = request.required.get(QUOTAS.key, ())
    if isinstance(found, Unknown):
        problem = f"cannot read DeviceQuotas, so no new replicas are placed: {found.cause}"
        return (scheduler.Quota("", None, problem=problem),)
    return tuple(sorted(map(read_quota, found), key=lambda other: other.name))


@per_version
def read_quota(found: Mapping[str, Any]) -> scheduler.Quota:
    """Return a DeviceQuota in the scheduler's types."""
    try:
        return describe_quota(decode_as(DeviceQuota, found))
    except InvalidObject as error:
        problem = f"{error}: correct the DeviceQuota; until then, no new replicas are placed"
        return scheduler.Quota(found["metadata"]["name"], _named(found), problem=problem)


def describe_quota(source: DeviceQuota) -> scheduler.Quota:
    """Return a DeviceQuota in the scheduler's types."""
    spec = source.spec
    allowed = tuple(text for text in spec.priority_class_names if not text.startswith(SYSTEM_PREFIX))
    known = {class_.name: class_ for class_ in source.status.priority_classes if class_.name in allowed}
    return scheduler.Quota(
        name=source.metadata.name,
        namespaces=frozenset(spec.namespaces),
        cohort=spec.cohort or "",
        limits=tuple(
            scheduler.Limit(
                class_.class_name,
                class_.nominal_quota,
                class_.device_name or "",
                class_.borrowing_limit,
                class_.lending_limit,
            )
            for class_ in spec.classes
        ),
        priority_classes=allowed,
        priorities={name: priority.value for name, priority in known.items()},
        preempting=frozenset(name for name, priority in known.items() if priority.preempts),
        preempts=spec.preemption.within_cohort is PreemptionPolicy.LOWER_PRIORITY,
    )


def reason(diagnosis: scheduler.Diagnosis) -> Reason:
    """Return why replicas are missing, as one word: their pods, or want of capacity, quota or priority."""
    if diagnosis.preempted:
        return Reason.PREEMPTED
    if known := _BLOCKS.get(diagnosis.block):
        return known
    reasons = {exclusion.why.reason for exclusion in diagnosis.excluded}
    if reasons == {scheduler.Reason.PODS_NOT_ACCEPTED}:
        return Reason.POD_NOT_ACCEPTED
    return Reason.QUOTA_EXCEEDED if scheduler.Reason.OVER_QUOTA in reasons else Reason.INSUFFICIENT_CAPACITY


def _named(found: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the namespaces of an object that is not valid; None if they cannot be told."""
    spec = found.get("spec")
    names = spec.get("namespaces") if isinstance(spec, Mapping) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return frozenset(names) or None


# Not the key of those that a standby reads, which are of its namespace only.
_DEPLOYMENTS: Final = Requirement("all-deployments", API_VERSION, kind_name(ModelDeployment), triggers=False)
_PATIENCE: Final = timedelta(minutes=2)
"""Time for which a deployment whose reconcile fails still comes before others."""

_CACHES: Final = Requirement("caches", API_VERSION, kind_name(ModelCache), triggers=False)


def further(find: Callable[[Requirement], tuple[Object, ...] | Unknown]) -> tuple[Requirement, ...]:
    """Return what a placement requires in addition where priorities are in use."""
    found = find(QUOTAS)
    if isinstance(found, Unknown) or not any(read_quota(item).priority_classes for item in found):
        return ()
    return _DEPLOYMENTS, _CACHES


def derive_priority(source: ModelDeployment, known: Mapping[str, scheduler.Quota]) -> scheduler.Priority:
    """Return the priority of a deployment, or why its PriorityClass does not count.

    `known` has the quota of each namespace.
    """
    name, namespace = source.spec.priority_class_name, source.metadata.namespace
    if not name:
        return scheduler.Priority()
    quota = known.get(namespace)
    if quota is not None and name in quota.priorities:
        return scheduler.Priority(name, quota.priorities[name], quota.preempts and name in quota.preempting)
    if quota is None:
        problem = (
            f'PriorityClass "{name}" requires a DeviceQuota that lists namespace {namespace} and allows '
            "the class: create one, or remove priorityClassName"
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


def other_deployments(
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
        (
            owner,
            replace(scheduler_input.read_deployment(owner, None), replicas=preferred.count_wanted(owner)),
        )
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
    return replace(plain, cache=cache, priority=derive_priority(source, known))


_UNKNOWN: Final = scheduler.CacheFootprint(known=False)


def _footprints(found: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], scheduler.CacheFootprint]:
    footprints = {}
    for entry in found:
        try:
            footprint = scheduler_input.read_footprint((entry,))
        except InvalidObject:
            continue  # its deployments wait, so they come before no other
        footprints[entry["metadata"]["namespace"], entry["metadata"]["name"]] = footprint
    return footprints
