"""Samples of DeviceQuotas, read from their status and from the deployments that wait for them."""

from collections import Counter
from collections.abc import Iterable, Iterator

from modelplane.api.conditions.reasons import ModelDeploymentCondition, ModelDeploymentReason
from modelplane.api.meta import Object
from modelplane.compose.deployment import standby
from modelplane.compose.readiness import condition_of
from modelplane.telemetry import metric_definitions
from modelplane.telemetry.metric_definitions import Sample

_WAITING = frozenset({ModelDeploymentReason.QUOTA_EXCEEDED, ModelDeploymentReason.QUOTA_UNKNOWN})
"""Reasons of a deployment whose replicas are not placed because of its quota."""


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
        scheduled = condition_of(deployment, ModelDeploymentCondition.REPLICAS_SCHEDULED)
        if scheduled.get("reason") in _WAITING:
            placed = deployment.get("status", {}).get("replicas", {}).get("total", 0)
            found[deployment["metadata"]["namespace"]] += max(standby.desired(deployment) - placed, 0)
    return found
