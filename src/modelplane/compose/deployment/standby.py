"""Standby: a ModelDeployment runs no replicas while the one that it stands by for has capacity.

The composition of a standby is that of a deployment with another number of replicas: all of
``spec.replicas``, or none. On doubt the state stays as it is, and a standby without a state that has replicas
keeps them.

A time begins when its cause is seen first. It begins anew when the cause was gone for a moment, or when the
process that watches is a new one. Without current evidence nothing changes.
"""

import datetime as dt
from typing import Any

import msgspec
from msgspec.structs import replace

from modelplane.api.conditions.reasons import (
    ModelDeploymentCondition as Type,
    ModelDeploymentReason as Reason,
)
from modelplane.api.fields.deployment.standby_settings import StandbyFor, StandbyStatus, StandbyTrigger
from modelplane.api.meta import Object
from modelplane.compose.composition import Composition, Requirement
from modelplane.compose.conditions import Condition, false, state_unless_new, true
from modelplane.compose.deployment import preferred
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.preferred import Preferred, Saturation, Seen
from modelplane.compose.deployment.replica_state import is_draining
from modelplane.compose.deployment.revisions import is_revision


class Standby(msgspec.Struct, frozen=True):
    """A deployment's request with the replicas that it runs now, and what to report about that."""

    request: DeploymentRequest
    status: dict[str, Any]
    conditions: tuple[Condition, ...] = ()
    watched: tuple[Requirement, ...] = ()
    again_in_s: float | None = None

    def joined(self, composition: Composition) -> Composition:
        """Return a composition of the request with the report about the standby."""
        times = [number for number in (composition.again_in_s, self.again_in_s) if number is not None]
        return replace(
            composition,
            status={**composition.status, **self.status},
            conditions=(*composition.conditions, *self.conditions),
            also_watch=(*composition.also_watch, *self.watched),
            again_in_s=min(times, default=None),
        )


def standby(request: DeploymentRequest) -> Standby:
    """Return a deployment's request with the replicas that it runs now."""
    settings = request.owner.spec.standby_for
    if settings is None:
        if request.facts.observes_capacity:
            return Standby(request, {}, ())
        # Crossplane keeps the conditions that are left out.
        message = "spec.standbyFor is absent, so the replicas always run"
        ended = true(Type.STANDBY_ACTIVE, Reason.NOT_A_STANDBY, message)
        return Standby(request, {}, state_unless_new(ended, request.owner.status))
    before = _read_state(request, settings)
    order = preferred.order(request, settings)
    if isinstance(order, Condition):
        runs = "the replicas run" if before.active else "no replicas run"
        message = f"{runs}, and nothing changes until the order is known: {order.message}"
        kept = replace(order, holds=before.active, message=message)
        watched = preferred.watched(request, settings, ())
        return Standby(_with_replicas(request, before), _wire(before), (kept,), watched)
    now, since = request.now, request.facts.watching_since
    seen = preferred.read_preferred(request, order)
    if now is not None:
        state = step(before, seen, settings, now, since)
    elif request.owner.status.standby is None and not before.active and seen.unplaced:
        # A new standby, as it is when all times are over.
        state = StandbyStatus(preferred=before.preferred, active=True, trigger=StandbyTrigger.UNPLACED)
    else:
        state = before
    return Standby(
        _with_replicas(request, state),
        _wire(state),
        (_active(state, settings, seen, order), *_unsaturable(request, settings)),
        preferred.watched(request, settings, order),
        measure_left_s(state, settings, now, since) if seen.is_current else None,
    )


def explain_idle(deployment: Object) -> str | None:
    """Return why a deployment runs no replicas whatever it asks for; None if it is no inactive standby."""
    settings, status = deployment["spec"].get("standbyFor"), deployment.get("status") or {}
    if settings is None or (status.get("standby") or {}).get("active"):
        return None
    return f'the ModelDeployment is a standby for "{settings["name"]}" and runs no replicas now'


def desired(deployment: Object) -> int:
    """Return the replicas that a deployment asks for now."""
    return 0 if explain_idle(deployment) else int(deployment["spec"].get("replicas", 1))


def step(
    before: StandbyStatus,
    seen: Seen,
    settings: StandbyFor,
    now: dt.datetime,
    watching_since: dt.datetime | None = None,
) -> StandbyStatus:
    """Return the next state; ``watching_since`` is the time from which somebody watches without a break."""
    if not seen.is_current:
        return before
    now = now.replace(microsecond=0)
    served = before.active and bool(seen.served_by) and not _is_held_back(before, seen, settings)
    unplaced = seen.unplaced and StandbyTrigger.UNPLACED in settings.when
    saturated = seen.saturation is Saturation.SATURATED and StandbyTrigger.SATURATED in settings.when
    state = replace(
        before,
        served_since=_since(before.served_since, now) if served else None,
        unplaced_since=_since(before.unplaced_since, now) if unplaced and not before.active else None,
        saturated_since=_since(before.saturated_since, now) if saturated and not before.active else None,
    )
    for trigger, since, after in _windows(state, settings):
        if since is not None and _passed(since, now, watching_since) >= after:
            return StandbyStatus(
                preferred=state.preferred, active=not state.active, since=now, trigger=trigger
            )
    return state


def measure_left_s(
    state: StandbyStatus,
    settings: StandbyFor,
    now: dt.datetime | None,
    watching_since: dt.datetime | None,
) -> float | None:
    """Return the seconds until a time is over; None if none has begun."""
    if now is None:
        return None
    left = [
        after - _passed(since, now, watching_since)
        for _, since, after in _windows(state, settings)
        if since is not None
    ]
    return max(1.0, min(left)) if left else None


def _read_state(request: DeploymentRequest, settings: StandbyFor) -> StandbyStatus:
    """Return the state so far. Replicas without a state have been there before, and stay."""
    known = request.owner.status.standby
    if known is None:
        replicas = (item for item in request.observed.values() if not is_revision(item))
        return StandbyStatus(preferred=settings.name, active=not all(map(is_draining, replicas)))
    if known.preferred == settings.name:
        return known
    return StandbyStatus(
        preferred=settings.name, active=known.active, since=known.since, trigger=known.trigger
    )


def _with_replicas(request: DeploymentRequest, state: StandbyStatus) -> DeploymentRequest:
    if state.active:
        return request
    return replace(request, owner=replace(request.owner, spec=replace(request.owner.spec, replicas=0)))


def _wire(state: StandbyStatus) -> dict[str, Any]:
    return {"standby": {"active": state.active, **msgspec.to_builtins(state)}}


def _unsaturable(request: DeploymentRequest, settings: StandbyFor) -> tuple[Condition, ...]:
    """Return the condition that the trigger Saturated has no effect, if it has none or had none before."""
    if problem := preferred.check_saturation(request, settings):
        return (false(Type.SETTINGS_SUPPORTED, Reason.SATURATION_UNKNOWN, problem),)
    supported = true(Type.SETTINGS_SUPPORTED, Reason.POD_ACCEPTED, "every setting takes effect")
    return state_unless_new(supported, request.owner.status)


def _active(
    state: StandbyStatus, settings: StandbyFor, seen: Seen, order: tuple[Preferred, ...]
) -> Condition:
    nearest = order[0]
    wire: dict[str, Any] = msgspec.to_builtins(state)
    if not state.active:
        return _inactive(wire, settings, nearest)
    since = f" since {wire['since']}" if state.since else ""
    if state.trigger is None:
        reason, why = (
            Reason.HAD_REPLICAS,
            f'they existed before the deployment became a standby for "{nearest.name}"',
        )
    elif state.trigger is StandbyTrigger.UNPLACED:
        reason = Reason.UNPLACED
        why = f'"{nearest.name}" could not place all its replicas for {settings.after_seconds} s'
    else:
        reason = Reason.SATURATED
        why = f'"{nearest.name}" was saturated for {settings.saturated_after_seconds} s'
    end = _end(state, wire, settings, seen, nearest)
    return true(Type.STANDBY_ACTIVE, reason, f"the replicas run{since}, because {why}. {end}")


def _end(
    state: StandbyStatus, wire: dict[str, Any], settings: StandbyFor, seen: Seen, nearest: Preferred
) -> str:
    """Return what ends a standby that is active."""
    after = f"for {settings.return_after_seconds} s"
    if state.served_since:
        served = f"since {wire['servedSince']}"
        return f'They are removed when all replicas of "{seen.served_by}" have served {after}: {served}'
    if seen.served_by:
        load = "its load allows it" if seen.saturation is not Saturation.UNKNOWN else "its load is known"
        return f'They are removed when "{nearest.name}" has served {after} and {load}'
    if not nearest.wanted and not nearest.deployment.spec.standby_for:
        return f'They are kept while "{nearest.name}" asks for no replicas: scale it up'
    now = f"{nearest.serving} of {nearest.wanted} serve"
    return f'They are removed when all replicas of "{nearest.name}" have served {after}: now {now}'


def _inactive(wire: dict[str, Any], settings: StandbyFor, nearest: Preferred) -> Condition:
    type_ = Type.STANDBY_ACTIVE
    if since := wire.get("unplacedSince"):
        counts = nearest.deployment.status.replicas
        placed = f"{counts.total if counts else 0} of {nearest.wanted} replicas placed"
        lack = f'"{nearest.name}" lacks capacity since {since}, with {placed}'
        why = f"{lack}: see condition {Type.REPLICAS_SCHEDULED}"
        return false(type_, Reason.PENDING, f"{why}. Replicas start after {settings.after_seconds} s")
    if since := wire.get("saturatedSince"):
        why = f'"{nearest.name}" has been saturated since {since}: see its InferenceAutoscaler'
        after = settings.saturated_after_seconds
        return false(type_, Reason.PENDING, f"{why}. Replicas start after {after} s")
    if nearest.deployment.spec.standby_for and not nearest.wanted:
        message = f'no replicas run while "{nearest.name}" is itself a standby that is not needed'
        return false(type_, Reason.NOT_NEEDED, message)
    return false(type_, Reason.NOT_NEEDED, f'no replicas run while "{nearest.name}" has capacity')


def _windows(
    state: StandbyStatus, settings: StandbyFor
) -> tuple[tuple[StandbyTrigger | None, dt.datetime | None, int], ...]:
    """Return the times that may end a state: the trigger of the next one, their beginning and length."""
    if state.active:
        return ((None, state.served_since, settings.return_after_seconds),)
    return (
        (StandbyTrigger.UNPLACED, state.unplaced_since, settings.after_seconds),
        (StandbyTrigger.SATURATED, state.saturated_since, settings.saturated_after_seconds),
    )


def _is_held_back(state: StandbyStatus, seen: Seen, settings: StandbyFor) -> bool:
    """Return True if the load keeps a standby from returning."""
    if StandbyTrigger.SATURATED not in settings.when:
        return False
    if state.trigger is StandbyTrigger.SATURATED:
        # Its share of the requests goes back to the preferred one, which must have room for it.
        return seen.saturation is not Saturation.HEADROOM
    return seen.saturation is Saturation.SATURATED


def _since(before: dt.datetime | None, now: dt.datetime) -> dt.datetime:
    # A clock that was set back begins anew.
    return now if before is None or before > now else before


def _passed(since: dt.datetime, now: dt.datetime, watching_since: dt.datetime | None) -> float:
    begun = since if watching_since is None else max(since, watching_since)
    return (now - begun).total_seconds()
