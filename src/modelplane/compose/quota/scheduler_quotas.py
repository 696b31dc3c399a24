"""DeviceQuotas as the scheduler sees them.

A DeviceQuota that cannot be read refuses new replicas of the namespaces that it names, and of all if it does
not say which those are: a limit that is not known is not "no limit". It removes nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

from modelplane import scheduler
from modelplane.api.conditions.reasons import ModelDeploymentReason as Reason
from modelplane.api.device_quota import SYSTEM_PREFIX, DeviceQuota, PreemptionPolicy
from modelplane.api.meta import API_VERSION, kind_name
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.memo import per_version

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
        problem = f"DeviceQuotas cannot be read, so no new replica is placed: {found.cause}"
        return (scheduler.Quota("", None, problem=problem),)
    return tuple(sorted(map(quota, found), key=lambda other: other.name))


@per_version
def quota(found: Mapping[str, Any]) -> scheduler.Quota:
    """Return a DeviceQuota in the scheduler's types."""
    try:
        return described(decode_as(DeviceQuota, found))
    except InvalidObject as error:
        problem = f"{error}: correct it, no new replica is placed until then"
        return scheduler.Quota(found["metadata"]["name"], _named(found), problem=problem)


def described(source: DeviceQuota) -> scheduler.Quota:
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
        priorities={name: each.value for name, each in known.items()},
        preempting=frozenset(name for name, each in known.items() if each.preempts),
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
    over_quota = scheduler.Reason.OVER_QUOTA in reasons
    return Reason.QUOTA_EXCEEDED if over_quota else Reason.INSUFFICIENT_CAPACITY


def _named(found: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the namespaces of an object that is not valid; None if they cannot be told."""
    spec = found.get("spec")
    names = spec.get("namespaces") if isinstance(spec, Mapping) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return frozenset(names) or None
