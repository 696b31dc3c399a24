"""Rollout of an edit to a deployment's replicas: in place, within the limits of ``spec.rollout``.

Replicas that the rollout has not reached stay as they are. A replica that does not serve is edited at once,
because it has nothing to lose. A serving one is edited while enough others serve: by default all of them. So
a bad edit takes down as many replicas as the limit allows, and the rest serve until it is corrected. One on a
cluster that does not answer may serve or not: it is neither edited nor counted on.

Surge replicas are placed in addition, with the new template. They stand in for those that are edited, and
are removed when all of those serve.
"""

import hashlib
from collections.abc import Collection, Mapping
from fractions import Fraction
from math import ceil
from typing import Final

import msgspec

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelReplicaCondition as Type
from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.deployment.rollout_settings import RolloutSettings
from modelplane.api.meta import Object
from modelplane.api.model_deployment import ModelDeployment, ReplicaTemplate
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import decode_as
from modelplane.compose.cluster.reachability import reported_by
from modelplane.compose.conditions import READY
from modelplane.compose.readiness import condition_of, holds

_DIGITS = 10


def revision(template: ReplicaTemplate) -> str:
    """Return a hash of the parts of a template that shape its replicas; placement is not included."""
    content = (template.engines, template.model_cache_name, template.serving_settings)
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:_DIGITS]


class Limits(msgspec.Struct, frozen=True):
    """Limits of a rollout, in replicas of the whole fleet."""

    unavailable: int = 1
    surge: int = 0
    paused: bool = False


_LIMITS: Final = Limits()


def limits(deployment: ModelDeployment) -> Limits:
    """Return the limits of a deployment's rollouts. At least one is not zero."""
    settings = deployment.spec.rollout or RolloutSettings()
    replicas = deployment.spec.replicas
    surge = ceil(_share(settings.max_surge, replicas))
    unavailable = int(_share(settings.max_unavailable, replicas))
    # As a Deployment does: percentages of few replicas may both round to zero.
    return Limits(unavailable or int(not surge), surge, settings.paused)


def _share(count: int | str, replicas: int) -> Fraction:
    if isinstance(count, str):
        return Fraction(int(count.removesuffix("%")) * replicas, 100)
    return Fraction(count)


class Rollout(msgspec.Struct, frozen=True):
    """The replicas that are up to date, and those that wait for their turn, by key."""

    updated: frozenset[str]
    waiting: frozenset[str]


def plan(
    desired: Mapping[str, ModelReplica],
    observed: Mapping[str, Object],
    limits: Limits = _LIMITS,
    surge: Collection[str] = (),
    missing: int = 0,
    first: Collection[str] = (),
    held: Collection[str] = (),
) -> Rollout:
    """Decide which replicas can be edited now, from the desired and the observed ones.

    ``surge`` has the keys of those that are in addition. ``missing`` more are asked for: they leave, do not
    serve, and have no replacement yet. Those in ``first`` are edited before others, and none in ``held``.
    """
    there = {key: observed[key] for key in sorted(desired) if key in observed}
    same = {key for key, replica in there.items() if key not in held and same_spec(desired[key], replica)}
    in_hand = {key for key, replica in there.items() if is_updating(replica)}
    # A draining replica takes no requests, so it can be edited at once.
    serving = {key for key, replica in there.items() if serves(replica)}
    updated = frozenset(same - in_hand)
    if limits.paused:
        return Rollout(updated, frozenset(there.keys() - same))
    stale = [key for key in there if key in serving and key not in same | in_hand]
    stale.sort(key=lambda key: (key in held, key not in first))
    unseen = {key for key, replica in there.items() if reported_by(replica)} - same
    least = max(0, len(desired) - len(surge) + missing - limits.unavailable)
    spare = max(0, len(serving - in_hand) - least)
    return Rollout(updated, frozenset(stale[spare:]) | unseen)


def surge_replicas(
    desired: Mapping[str, ModelReplica],
    observed: Mapping[str, Object],
    limits: Limits,
    standing: int,
    held: Collection[str] = (),
) -> int:
    """Return how many surge replicas there are to be; ``standing`` exist.

    ``desired`` has the replicas without them. New ones are placed only for an edit, which those in ``held``
    lack. Those that exist stay until every replica has it and serves.
    """
    stale = [
        key
        for key in desired
        if key in observed and (key in held or not same_spec(desired[key], observed[key]))
    ]
    unfinished = {
        key
        for key in desired
        if key in stale or key not in observed or not serves(observed[key]) or is_updating(observed[key])
    }
    if not unfinished:
        return 0
    wanted = len(unfinished) if stale and not limits.paused else 0
    return min(limits.surge, max(wanted, standing))


def is_updating(replica: Object) -> bool:
    """Return True if a replica serves and its cluster has not applied the last edit yet."""
    return condition_of(replica, Type.MODEL_ACCEPTED).get("reason") == Reason.UPDATING


def is_draining(replica: Object | None) -> bool:
    """Return True if a replica is draining and takes no requests."""
    return replica is not None and bool(replica["spec"].get("draining"))


def is_surge(replica: Object | None) -> bool:
    """Return True if a rollout placed a replica in addition."""
    annotations = (replica or {}).get("metadata", {}).get("annotations") or {}
    return bool(annotations.get(labels.SURGE) == "true")


def serves(replica: Object) -> bool:
    """Return True if a replica is known to serve and takes requests."""
    return holds(replica, READY) and not is_draining(replica) and reported_by(replica) is None


def same_spec(desired: ModelReplica, observed: Object) -> bool:
    """Return True if a replica has the desired spec."""
    # Decoded, because a server fills in the defaults.
    return desired.spec == decode_as(ModelReplica, observed).spec
