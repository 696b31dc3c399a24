"""A DeviceQuota composes nothing: its status tells what its namespaces use, and the priorities allowed them.

The scheduler counts the use of each quota itself whenever it places a deployment, and reads none of these
numbers (``scheduler.quota_ledger``). The values of PriorityClasses are read here, once for all deployments.
"""

from typing import Any, Final

from modelplane import scheduler
from modelplane.api.conditions.reasons import DeviceQuotaCondition as Type, DeviceQuotaReason as Reason
from modelplane.api.device_quota import DeviceQuota
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import count_noun, listing
from modelplane.api.meta import API_VERSION, kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import InvalidObject
from modelplane.compose.composition import Blocked, Composition, NoFacts, Reference, Request, Requirement
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.deployment import scheduler_input, scheduler_quotas
from modelplane.compose.readiness import condition_of

PRIORITY_CLASS: Final = ("scheduling.k8s.io/v1", "PriorityClass")

_CLUSTERS: Final = "clusters"
_OTHERS: Final = scheduler_quotas.QUOTAS.key
_AGAIN_S: Final = 300.0
"""Seconds after which what the fleet has is compared again."""


def requirements(quota: DeviceQuota) -> tuple[Requirement, ...]:
    """Return the replicas of the namespaces, the PriorityClasses, the clusters, and the other quotas."""
    return (
        Requirement(_CLUSTERS, API_VERSION, kind_name(InferenceCluster), triggers=False),
        scheduler_quotas.QUOTAS,
        *(
            Requirement(_replicas(namespace), API_VERSION, kind_name(ModelReplica), namespace)
            for namespace in quota.spec.namespaces
        ),
        *(
            Requirement(_priority_class(name), *PRIORITY_CLASS, name=name)
            for name in quota.spec.priority_class_names
        ),
    )


def _replicas(namespace: str) -> str:
    return f"replicas-{namespace}"


def _priority_class(name: str) -> str:
    return f"priority-class-{name}"


def compose(request: Request[DeviceQuota, NoFacts]) -> Composition | Blocked:
    """Report the use of a quota, and what keeps it from being in force."""
    quota = request.owner
    for key in (_CLUSTERS, _OTHERS, *map(_replicas, quota.spec.namespaces)):
        if unknown := request.unknown(key):
            return Blocked(f"cannot list {key.partition('-')[0]}: {unknown.cause}")
    try:
        replicas = tuple(
            scheduler_input.read_replica(item)
            for namespace in quota.spec.namespaces
            for item in request.found(_replicas(namespace))
        )
    except InvalidObject as error:
        return Blocked(str(error))
    there = scheduler.Fleet(tuple(map(scheduler_input.read_cluster, request.found(_CLUSTERS))), replicas)
    uses = scheduler.sum_quota_usage(there, scheduler_quotas.describe_quota(quota))
    accepted, too_small = _accepted(request), _lack_of_capacity(uses)
    if accepted.holds and too_small:
        accepted = true(Type.ACCEPTED, Reason.FLEET_TOO_SMALL, f"{accepted.message}; {too_small}")
    return Composition(
        status={"classes": [_class(use) for use in uses], "priorityClasses": _values(request)},
        conditions=(accepted, *_resolved(request)),
        ready=accepted.holds,
        unsatisfied=not accepted.holds or bool(too_small),
        # The quotas that name a namespace of this one too and do not say so yet.
        wakes=tuple(
            Reference(kind_name(DeviceQuota), "", item["metadata"]["name"])
            for item in request.found(_OTHERS)
            if item["metadata"]["name"] != quota.metadata.name
            and frozenset(quota.spec.namespaces)
            & (scheduler_quotas.read_quota(item).namespaces or frozenset())
            and condition_of(item, Type.ACCEPTED).get("status") != "False"
        ),
        again_in_s=_AGAIN_S,
    )


def _class(use: scheduler.QuotaUse) -> dict[str, Any]:
    return {
        "className": use.class_name,
        "deviceName": use.device,
        "used": use.used,
        "borrowed": use.borrowed,
        "capacity": use.capacity,
    }


def _accepted(request: Request[DeviceQuota, NoFacts]) -> Condition:
    own = request.owner
    for other in map(scheduler_quotas.read_quota, request.found(_OTHERS)):
        shared = frozenset(own.spec.namespaces) & (other.namespaces or frozenset())
        if other.name != own.metadata.name and shared:
            message = (
                f'DeviceQuota "{other.name}" also lists namespace {listing(shared)}, so no new replicas '
                "are placed there: remove the namespace from one of the quotas"
            )
            return false(Type.ACCEPTED, Reason.NAMESPACE_CONFLICT, message)
    count = count_noun(len(own.spec.namespaces), "namespace")
    return true(Type.ACCEPTED, Reason.IN_FORCE, f"limits {count}")


def _lack_of_capacity(uses: tuple[scheduler.QuotaUse, ...]) -> str | None:
    """Return which promise exceeds the devices of the fleet; None if the fleet has all."""
    for use in uses:
        if use.nominal > use.capacity:
            return (
                f"nominalQuota of class {use.class_name} is {use.nominal} {use.device or 'device'}, but "
                f"the fleet has {use.capacity}: lower the quota, or add nodes"
            )
    return None


def _values(request: Request[DeviceQuota, NoFacts]) -> list[dict[str, Any]]:
    """Return the PriorityClasses that exist; one that cannot be read keeps the value that it had."""
    known = {class_.name: class_ for class_ in request.owner.status.priority_classes}
    values = []
    for name in request.owner.spec.priority_class_names:
        if request.unknown(_priority_class(name)):
            if (before := known.get(name)) is not None:
                values.append({"name": name, "value": before.value, "preempts": before.preempts})
            continue
        for found in request.found(_priority_class(name)):
            preempts = found.get("preemptionPolicy", "PreemptLowerPriority") != "Never"
            values.append({"name": name, "value": int(found.get("value", 0)), "preempts": preempts})
    return values


def _resolved(request: Request[DeviceQuota, NoFacts]) -> tuple[Condition, ...]:
    """Return whether the PriorityClasses exist; no condition where none was ever named."""
    names = request.owner.spec.priority_class_names
    type_ = Type.SETTINGS_SUPPORTED
    for name in names:
        if unknown := request.unknown(_priority_class(name)):
            message = f'cannot read PriorityClass "{name}", so the last known value applies: {unknown.cause}'
            return (false(type_, Reason.PRIORITY_CLASS_UNKNOWN, message),)
    missing = [name for name in names if not request.found(_priority_class(name))]
    if missing:
        message = f"PriorityClass {listing(missing)} does not exist: create it, or correct priorityClassNames"
        return (false(type_, Reason.PRIORITY_CLASS_NOT_FOUND, message),)
    # Crossplane keeps a condition that is not composed any more.
    was_named = any(condition.type == type_ for condition in request.owner.status.conditions)
    return (true(type_, Reason.RESOLVED, "every PriorityClass exists"),) if names or was_named else ()
