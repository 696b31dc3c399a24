"""Preferred deployments of a standby: their order, and what their statuses say about their capacity.

A standby names the deployment before it, which may be a standby itself. What cannot be read, or is older than
the deployment's last edit, is no evidence for anything.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from modelplane.api import labels
from modelplane.api.conditions.reasons import (
    InferenceAutoscalerCondition,
    InferenceAutoscalerReason,
    ModelDeploymentCondition as Type,
    ModelDeploymentReason as Reason,
)
from modelplane.api.fields.deployment.standby_settings import MOST_PREFERRED, StandbyFor, StandbyTrigger
from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.meta import API_VERSION, Model, Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Requirement
from modelplane.compose.conditions import Condition, false
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.replica_state import serves
from modelplane.compose.memo import readable
from modelplane.compose.readiness import condition_of, holds, is_true

_DEPLOYMENTS, _AUTOSCALERS = "deployments", "autoscalers"

_FULL: Final = 0.9
"""Part of its target from which a deployment at maxReplicas has no headroom: the autoscaler's tolerance."""

_NO_CAPACITY = frozenset(
    {Reason.NO_CLUSTERS, Reason.INSUFFICIENT_CAPACITY, Reason.QUOTA_EXCEEDED, Reason.PREEMPTED}
)


class Saturation(StrEnum):
    """Load of a deployment, compared with what it can grow to."""

    HEADROOM = "headroom"
    TIGHT = "tight"
    """It needs all that it can have, and no more."""
    SATURATED = "saturated"
    UNKNOWN = "unknown"
    """An autoscaler does not know the load."""


class Preferred(msgspec.Struct, frozen=True):
    """A deployment before a standby in the order."""

    deployment: ModelDeployment
    item: Object
    serving: int = 0
    """Its replicas that serve, by its status and by their own."""

    @property
    def name(self) -> str:
        """Name of the deployment."""
        return self.deployment.metadata.name

    @property
    def wanted(self) -> int:
        """Replicas that it asks for now: none while it is a standby that is not active."""
        return count_wanted(self.deployment)

    @property
    def serves(self) -> bool:
        """True if it asks for replicas, and all of them have a place and serve."""
        return self.serving >= self.wanted > 0 and holds(self.item, Type.REPLICAS_SCHEDULED)


class Seen(msgspec.Struct, frozen=True):
    """Evidence about the deployments before a standby."""

    is_current: bool = True
    """False while the status of the nearest one is older than its spec."""
    unplaced: bool = False
    saturation: Saturation = Saturation.HEADROOM
    served_by: str = ""
    """The nearest deployment all of whose replicas serve; empty if there is none, or they do not suffice."""


def count_wanted(deployment: ModelDeployment) -> int:
    """Return the replicas that a deployment asks for now, by its status if it is a standby."""
    standby = deployment.status.standby
    if deployment.spec.standby_for is not None and not (standby and standby.active):
        return 0
    return deployment.spec.replicas


def requirements(deployment: ModelDeployment) -> tuple[Requirement, ...]:
    """Return the deployments of a standby's namespace, and the autoscalers if load counts."""
    settings, namespace = deployment.spec.standby_for, deployment.metadata.namespace
    if settings is None:
        return ()
    # Most of them do not matter: ``watched`` names those that trigger.
    kinds: dict[str, type[Model]] = {_DEPLOYMENTS: ModelDeployment}
    if StandbyTrigger.SATURATED in settings.when:
        kinds[_AUTOSCALERS] = InferenceAutoscaler
    return tuple(
        Requirement(key, API_VERSION, kind_name(type_), namespace, triggers=False)
        for key, type_ in kinds.items()
    )


def watched(
    request: DeploymentRequest, settings: StandbyFor, before: Iterable[Preferred]
) -> tuple[Requirement, ...]:
    """Return the objects whose changes concern a standby: all that its decision follows from."""
    deployments = {settings.name, *(preference.name for preference in before)}
    deployments |= {above.name for preference in before if (above := preference.deployment.spec.standby_for)}
    autoscalers = {autoscaler.metadata.name for autoscaler, _ in _autoscalers(request, settings.name)}
    return tuple(
        Requirement("", API_VERSION, kind, request.owner.metadata.namespace, name)
        for kind, names in (
            (kind_name(ModelDeployment), deployments),
            (kind_name(InferenceAutoscaler), autoscalers),
        )
        for name in sorted(names)
    )


def order(request: DeploymentRequest, settings: StandbyFor) -> tuple[Preferred, ...] | Condition:
    """Return the deployments before a standby, the nearest first, or the condition that refuses them."""
    owner, type_ = request.owner.metadata, Type.STANDBY_ACTIVE
    if unknown := request.unknown(_DEPLOYMENTS):
        message = f'cannot read the ModelDeployments of namespace "{owner.namespace}": {unknown.cause}'
        return false(type_, Reason.PREFERRED_UNREADABLE, message)
    known = {item["metadata"]["name"]: item for item in request.found(_DEPLOYMENTS)}
    found: list[Preferred] = []
    names = [owner.name]
    above: StandbyFor | None = settings
    while above is not None:
        if above.name in names:
            path = " -> ".join(f'"{name}"' for name in (*names, above.name))
            message = f"the order of deployments is a cycle: {path}. Correct spec.standbyFor of one of them"
            return false(type_, Reason.STANDBY_CYCLE, message)
        if len(found) == MOST_PREFERRED:
            message = f"more than {MOST_PREFERRED} deployments come before this one: shorten the chain"
            return false(type_, Reason.TOO_MANY_PREFERRED, message)
        read = _read(known.get(above.name), above.name, owner.namespace)
        if isinstance(read, Condition):
            # What is missing further up is for the standby that names it.
            return tuple(found) if found else read
        found.append(read)
        names.append(above.name)
        above = read.deployment.spec.standby_for
    return _count_serving(request, found)


def _read(item: Object | None, name: str, namespace: str) -> Preferred | Condition:
    type_ = Type.STANDBY_ACTIVE
    if item is None:
        message = (
            f'ModelDeployment "{name}" does not exist in namespace "{namespace}": create it, or correct '
        )
        return false(type_, Reason.PREFERRED_NOT_FOUND, f"{message}spec.standbyFor")
    if item["metadata"].get("deletionTimestamp"):
        message = f'ModelDeployment "{name}" is being deleted: create it again, or correct spec.standbyFor'
        return false(type_, Reason.PREFERRED_NOT_FOUND, message)
    try:
        return Preferred(decode_as(ModelDeployment, item), item)
    except InvalidObject as error:
        return false(type_, Reason.PREFERRED_UNREADABLE, f'cannot read ModelDeployment "{name}": {error}')


def _count_serving(request: DeploymentRequest, before: Iterable[Preferred]) -> tuple[Preferred, ...]:
    """Return deployments with the number of their replicas that serve."""
    namespace = request.owner.metadata.namespace
    serving = Counter(
        item["metadata"].get("labels", {}).get(labels.DEPLOYMENT, "")
        for item in request.found("replicas")
        if item["metadata"]["namespace"] == namespace and serves(item)
    )
    return tuple(
        Preferred(
            preference.deployment,
            preference.item,
            # The status leaves out replicas on clusters that do not answer.
            min(
                serving[preference.name],
                counts.ready if (counts := preference.deployment.status.replicas) else 0,
            ),
        )
        for preference in before
    )


def read_preferred(request: DeploymentRequest, before: tuple[Preferred, ...]) -> Seen:
    """Return what is known of the deployments before a standby, of which there is at least one."""
    nearest, served_by = before[0], _served_by(before)
    scheduled = condition_of(nearest.item, Type.REPLICAS_SCHEDULED)
    generation = nearest.item["metadata"].get("generation", 0)
    if not scheduled or scheduled.get("observedGeneration", generation) < generation:
        return Seen(is_current=False)
    short = scheduled.get("status") == "False" and scheduled.get("reason") in _NO_CAPACITY
    # One that is saturated lets a standby of the next in the order run only if that one is short too.
    by_nearest = served_by in ("", nearest.name)
    return Seen(
        unplaced=short and not served_by,
        saturation=_saturation(request, nearest, short=short) if by_nearest else Saturation.HEADROOM,
        served_by=served_by,
    )


def _served_by(before: Iterable[Preferred]) -> str:
    """Return the nearest deployment that serves in full, unless one that is nearer is needed and does not."""
    for preference in before:
        if preference.serves:
            return preference.name
        standby = preference.deployment.status.standby
        if standby is None or (standby.active and standby.served_since is None):
            return ""
    return ""


def _autoscalers(request: DeploymentRequest, name: str) -> tuple[tuple[InferenceAutoscaler, Object], ...]:
    return tuple(
        (autoscaler, item)
        for item in request.found(_AUTOSCALERS)
        for autoscaler in readable(InferenceAutoscaler)(item)
        if autoscaler.spec.deployment_ref.name == name
    )


def _saturation(request: DeploymentRequest, preferred: Preferred, *, short: bool) -> Saturation:
    found = _autoscalers(request, preferred.name)
    if not found:
        return Saturation.HEADROOM
    active = [row for row in found if is_true(row[1], InferenceAutoscalerCondition.SCALING_ACTIVE)]
    if not active:
        return Saturation.UNKNOWN
    autoscaler, item = active[0]
    replicas, placed = autoscaler.status.replicas, preferred.deployment.status.replicas
    desired = replicas.desired if replicas else 0
    cannot_grow = short and desired > (placed.total if placed else 0)
    if cannot_grow or is_true(item, InferenceAutoscalerCondition.SCALING_LIMITED):
        return Saturation.SATURATED
    is_full = desired >= autoscaler.spec.max_replicas and _use(autoscaler, preferred.serving) >= _FULL
    return Saturation.TIGHT if is_full else Saturation.HEADROOM


def _use(autoscaler: InferenceAutoscaler, serving: int) -> float:
    """Return the load of replicas in parts of their target; 1 if it is not known."""
    load, targets = autoscaler.status.load, autoscaler.spec.targets
    if load is None or not serving:
        return 1.0
    amounts = (
        (load.in_flight + load.held, targets.requests_per_replica),
        (load.tokens_per_second, targets.tokens_per_second_per_replica),
    )
    return max(amount / (target * serving) for amount, target in amounts if target)


def check_saturation(request: DeploymentRequest, settings: StandbyFor) -> str | None:
    """Return why the preferred deployment is never Saturated, with the remedy; None if it can be."""
    if StandbyTrigger.SATURATED not in settings.when:
        return None
    if unknown := request.unknown(_AUTOSCALERS):
        return f"cannot read the InferenceAutoscalers: {unknown.cause}"
    never = f'ModelDeployment "{settings.name}" is never considered Saturated'
    remedy = "or remove Saturated from spec.standbyFor.when"
    found = _autoscalers(request, settings.name)
    if not found:
        return f"{never}, because no InferenceAutoscaler scales the deployment: create one, {remedy}"
    type_ = InferenceAutoscalerCondition.SCALING_ACTIVE
    if all(
        condition_of(item, type_).get("reason") == InferenceAutoscalerReason.UNSUPPORTED for _, item in found
    ):
        return (
            f"{never}, because only Modelplane's controllers read the gateway's counts: let the "
            f"controllers reconcile, {remedy}"
        )
    return None
