"""Rollout of an edit to a deployment's replicas: in place, one serving replica at a time.

Replicas that the rollout has not reached stay as they are. A replica that does not serve is edited at once,
because it has nothing to lose. A serving one is edited once every other one serves and is up to date. So a
bad edit takes down one replica, and the rest serve until it is corrected.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from modelplane.api.decode import decode_as
from modelplane.api.meta import Object
from modelplane.api.model_deployment import ReplicaTemplate
from modelplane.api.model_replica import ModelReplica
from modelplane.api.reasons import ModelReplicaCondition as Type
from modelplane.api.reasons import ModelReplicaReason as Reason
from modelplane.compose.conditions import READY
from modelplane.compose.readiness import condition_of, holds

_DIGITS = 10


def revision(template: ReplicaTemplate) -> str:
    """Return a hash of the parts of a template that shape its replicas; placement is not included."""
    content = (template.engines, template.model_cache_name, template.serving_settings)
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class Rollout:
    """The replicas that are up to date, and those that wait for their turn, by key."""

    updated: frozenset[str]
    waiting: frozenset[str]


def plan(desired: Mapping[str, ModelReplica], observed: Mapping[str, Object]) -> Rollout:
    """Decide which replicas can be edited now, from the desired and the observed ones."""
    there = {key: observed[key] for key in sorted(desired) if key in observed}
    same = {key for key, replica in there.items() if same_spec(desired[key], replica)}
    in_hand = {key for key, replica in there.items() if is_updating(replica)}
    # A draining replica takes no requests, so it can be edited at once.
    serving = {key for key, replica in there.items() if holds(replica, READY) and not is_draining(replica)}
    stale = [key for key in there if key in serving and key not in same | in_hand]
    in_work = in_hand or any(key not in serving for key in desired)
    return Rollout(frozenset(same - in_hand), frozenset(stale if in_work else stale[1:]))


def is_updating(replica: Object) -> bool:
    """Return True if a replica serves and its cluster has not applied the last edit yet."""
    return condition_of(replica, Type.MODEL_ACCEPTED).get("reason") == Reason.UPDATING


def is_draining(replica: Object | None) -> bool:
    """Return True if a replica is draining and takes no requests."""
    return replica is not None and bool(replica["spec"].get("draining"))


def same_spec(desired: ModelReplica, observed: Object) -> bool:
    """Return True if a replica has the desired spec."""
    # Decoded, because a server fills in the defaults.
    return desired.spec == decode_as(ModelReplica, observed).spec
