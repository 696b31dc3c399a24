"""How an edit of a deployment reaches its replicas: in place, one serving replica at a time.

A replica that the rollout has not reached stays as it is. One that does not serve has nothing to lose and is
edited at once; one that serves is edited when every other one serves and runs what it was last told to. So a
bad edit takes one replica, and the rest serve on until it is corrected.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from modelplane.api.decode import decode_as
from modelplane.api.engines import Serving
from modelplane.api.model_deployment import ReplicaTemplate
from modelplane.api.model_replica import ModelReplica
from modelplane.api.reasons import ModelReplicaCondition as Type
from modelplane.api.reasons import ModelReplicaReason as Reason
from modelplane.compose.composition import Object
from modelplane.compose.conditions import READY
from modelplane.compose.readiness import condition_of, holds

_DIGITS = 10


def revision(template: ReplicaTemplate) -> str:
    """Return a hash of what a template says about its replicas; where they may go plays no part."""
    serving = Serving(mode=template.serving, routing=template.routing)
    content = (template.engines, template.model_cache_name, serving)
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Which replicas are as they should be, and which wait for their turn, by key."""

    updated: frozenset[str]
    waiting: frozenset[str]


def plan(desired: Mapping[str, ModelReplica], observed: Mapping[str, Object]) -> Rollout:
    """Decide which replicas may be edited now, given those wanted and those that there are."""
    there = {key: observed[key] for key in sorted(desired) if key in observed}
    same = {key for key, replica in there.items() if same_spec(desired[key], replica)}
    in_hand = {key for key, replica in there.items() if is_updating(replica)}
    # One that is draining takes no requests, so nothing is lost when it is called back.
    serving = {key for key, replica in there.items() if holds(replica, READY) and not is_draining(replica)}
    stale = [key for key in there if key in serving and key not in same | in_hand]
    in_work = in_hand or any(key not in serving for key in desired)
    return Rollout(frozenset(same - in_hand), frozenset(stale if in_work else stale[1:]))


def is_updating(replica: Object) -> bool:
    """Whether a replica serves and its cluster has not carried out the replica's last edit yet."""
    return condition_of(replica, Type.MODEL_ACCEPTED).get("reason") == Reason.UPDATING


def is_draining(replica: Object | None) -> bool:
    """Whether there is a replica that was told to go, and takes no requests."""
    return replica is not None and bool(replica["spec"].get("draining"))


def same_spec(desired: ModelReplica, observed: Object) -> bool:
    """Whether a replica already is as it should be."""
    # Decoded, because a server fills in the defaults.
    return desired.spec == decode_as(ModelReplica, observed).spec
