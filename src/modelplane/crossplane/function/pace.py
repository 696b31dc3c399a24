"""Pace: the speed of new children, status writes and repeated requests.

Crossplane counts the changes of an object and of its children in a bucket of a hundred, refilled by one a
second, and ignores the object for minutes once the bucket is empty. It also applies every child again on
each reconcile. So many new children are created in waves, the status of an owner on its way to Ready is
written every few seconds instead of with each child, and an owner without changes is requested less often.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from modelplane.api.conditions.reasons import is_warning
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Keep
from modelplane.compose.conditions import READY, SYNCED, Condition
from modelplane.compose.deployment.replica_state import is_draining, same_spec
from modelplane.compose.kinds import COMPOSERS, Lane, Pace
from modelplane.compose.readiness import condition_of, is_true
from modelplane.crossplane.function.applied_fields import without_crossplane

RESPONSIVE = "Responsive"
"""The condition that tells whether Crossplane handles the events of an object."""

_CROSSPLANES = frozenset({READY, SYNCED, RESPONSIVE})

_FIRST_WAVE = 5
"""Number of replicas that a deployment begins with: as many as the bucket holds."""

_WAVE = 40
"""Maximum number of new replicas in progress at once after that; each wave applies all replicas again."""

_PATIENCE_S = 20.0
"""Time that the next wave waits for a replica that Crossplane has not composed yet."""

_REFILL_S = 10.0
"""Time for which the bucket refills between two changes of one kind.

All other replicas must be unchanged for so long before a serving replica is edited, and an object that
settles repeats its status for so long, unless the news needs an operator.
"""

_MOST_AT_FULL_PACE = 5
"""Replicas of a deployment that can all be edited at this pace; more take twice as long each.

An edit of a replica takes about 24 tokens, those of its deployment's own status included.
"""

_SKEW_S = 1.0
"""Allowed difference between the clocks of Crossplane and the function; times are whole seconds."""

_DEAF_S = 360.0
"""Time for which Crossplane drops events once it has begun to: five minutes and one reconcile."""

_MOST_CHILDREN = 9
"""Children whose changes until all are ready fit into the bucket, with those of their owner's own status."""

_SOON_S = 2
_PER_SECOND = 20
"""Replicas of a deployment on its way to Ready for each second of its time to live: each is applied again."""

_STARTING_S = 10
"""The longest such time."""

_LONG_UNREADY = 100
"""Divisor of the time without a change: what has not become Ready for hours is not asked about so often."""

_SPREAD = 20
"""Percentage of the longest time to live by which objects differ, so that they drift apart."""

_FIRST_SPREAD = 80
"""The same for objects that begin with the longest one: a fleet that was created at once is one of these."""

_NEW_S = 30
"""Time without a change for which an object counts as new."""

_FAILING_S = 60
_UNKNOWN = Pace()
"""The pace for kinds that are not ours."""

_REPLICA = kind_name(ModelReplica)


@dataclass(frozen=True, slots=True)
class OwnerState:
    """The state of an owner that determines the time to live of an answer."""

    is_ready: bool
    is_leaving: bool = False
    """True if it is about to be deleted, which other owners wait for."""
    awaits: bool = False
    """True if it waits for a change that Crossplane may not report."""
    is_failing: bool = False
    """True if a child could not be written or observed."""
    is_news: bool = False
    """True if this answer differs from the last one."""


def read_usual_ttl_s(kind: str) -> int:
    """Return the time to live of an answer about a kind, in seconds."""
    return _of(kind).usual_s


def _of(kind: str) -> Pace:
    row = COMPOSERS.get(kind)
    return row.pace if row else _UNKNOWN


def compute_ttl_s(owner: Object, state: OwnerState, now: datetime) -> int:
    """Return the time to live of an answer, in seconds.

    It grows with the time for which an object has not changed, for ready objects to minutes at most. It is
    jittered by uid, so that a fleet that was created at once is not requested at once.
    """
    if state.is_leaving:
        return _SOON_S
    kind, since = str(owner["kind"]), 0.0 if state.is_news else measure_unchanged_s(owner, now)
    ordinary, unready = read_usual_ttl_s(kind), _of(kind).unready_s
    if unready and (not state.is_ready or is_deaf(owner, now)):
        return int(min(max(unready, since / _LONG_UNREADY), ordinary))
    if not state.is_ready:
        hurries = state.awaits or is_deaf(owner, now)
        return int(min(max(_starting(owner), since / 4), ordinary)) if hurries else ordinary
    longest = _FAILING_S if state.is_failing else _of(kind).longest_s or ordinary
    if is_deaf(owner, now) or (longest <= ordinary and not unready):
        return ordinary
    within = int(min(max(ordinary, 2 * since), longest))
    spread = _FIRST_SPREAD if within == longest and since < _NEW_S else _SPREAD
    return within - within * spread * _share(str(owner["metadata"].get("uid", ""))) // 10_000


def overflows(composition: Composition) -> bool:
    """Return True if the changes of the children that start take more tokens than a bucket has."""
    return len(composition.children) > _MOST_CHILDREN


def _starting(owner: Object) -> int:
    """Return the time to live while an object's children start, in seconds: longer for many replicas."""
    replicas = _replicas(owner)
    return min(max(1, replicas // _PER_SECOND), _STARTING_S) if replicas else _SOON_S


def _replicas(owner: Object) -> int:
    """Return the number of replicas that a deployment asks for; zero for any other kind."""
    is_deployment = owner["kind"] == kind_name(ModelDeployment)
    return int(owner["spec"].get("replicas", 1)) if is_deployment else 0


def _share(uid: str) -> int:
    """Return a number below a hundred that is constant for an object."""
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4], "big") % 100


def measure_unchanged_s(owner: Object, now: datetime) -> float:
    """Return the seconds since the last change of an object's conditions; zero if it has none."""
    times = [str(item.get("lastTransitionTime", "")) for item in list_conditions(owner)]
    return max(0.0, _age(max(times, default=""), now))


def _age(time: str, now: datetime) -> float:
    """Return the seconds since a time; negative if the writer's clock is ahead."""
    try:
        return (now - datetime.fromisoformat(time)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def is_deaf(owner: Object, now: datetime) -> bool:
    """Return True if Crossplane drops the events of an object.

    The condition stays until the next event that Crossplane lets through, which after a while is any.
    """
    responsive = condition_of(owner, RESPONSIVE)
    is_silent = responsive.get("status") == "False"
    return is_silent and _age(str(responsive.get("lastTransitionTime", "")), now) < _DEAF_S


class Paced(NamedTuple):
    """The part of a composition to apply now."""

    composition: Composition
    look_in: int = 0
    """The seconds until the rest can follow; zero if nothing is left."""


def pace_changes(composition: Composition, composed: Mapping[str, Object], now: datetime) -> Paced:
    """Return a composition with as many new replicas and edits as can be applied now.

    A replica that does not exist yet is left out, which deletes nothing. A replica that is to be edited
    later is kept as it is.
    """
    new = [
        child.key
        for child in composition.children
        if isinstance(child, Desired) and child.manifest["kind"] == _REPLICA and child.key not in composed
    ]
    under_way = sum(_is_under_way(item, now) for item in composed.values())
    wave = _WAVE if any(item["kind"] == _REPLICA for item in composed.values()) else _FIRST_WAVE
    later = frozenset(new[max(0, wave - under_way) :])
    waits = {
        child.key: wait
        for child in composition.children
        if _is_edit(child, composed) and (wait := _compute_wait_s(child.key, composed, now)) > 0
    }
    if not later and not waits:
        return Paced(composition)
    children = tuple(
        Keep(child.key) if child.key in waits else child
        for child in composition.children
        if child.key not in later
    )
    look_in = _SOON_S if later else math.ceil(min(waits.values()))
    return Paced(replace(composition, children=children), look_in)


def _is_under_way(child: Object, now: datetime) -> bool:
    """Return True if Crossplane has not composed a replica yet and is expected to."""
    if child["kind"] != _REPLICA or condition_of(child, SYNCED):
        return False
    return _age(str(child["metadata"].get("creationTimestamp", "")), now) < _PATIENCE_S


def _is_edit(child: Desired | Keep, composed: Mapping[str, Object]) -> bool:
    there = composed.get(child.key)
    if not isinstance(child, Desired) or there is None or there["kind"] != _REPLICA:
        return False
    is_serving = is_true(there, READY) and not is_draining(there)
    return (
        is_serving
        and not is_draining(child.manifest)
        and not same_spec(decode_as(ModelReplica, child.manifest), without_crossplane(there))
    )


def _compute_wait_s(key: str, composed: Mapping[str, Object], now: datetime) -> float:
    """Return the seconds until the other replicas have been unchanged for long enough.

    Crossplane's bucket refills meanwhile.
    """
    others = [child for name, child in composed.items() if name != key and child["kind"] == _REPLICA]
    times = [
        str(condition.get("lastTransitionTime", ""))
        for other in others
        for condition in list_conditions(other)
    ]
    return _compute_refill_s(len(others) + 1) - max(0.0, _age(max(times), now)) if times else 0.0


def _compute_refill_s(replicas: int) -> float:
    """Return the time between two changes of a deployment with so many replicas, in seconds."""
    return _REFILL_S if replicas <= _MOST_AT_FULL_PACE else 2 * _REFILL_S


def repeats_status(owner: Object, news: Sequence[Condition], is_ready: bool, now: datetime) -> bool:
    """Return True if an owner repeats its last status although there is news.

    It does so on its way to Ready shortly after a status change, unless the news needs an operator.
    """
    if (
        is_ready
        or not COMPOSERS[owner["kind"]].pace.settles
        or condition_of(owner, READY).get("status") != "False"
    ):
        return False
    before = {str(condition.get("type")): condition for condition in list_own_conditions(owner)}
    if {condition.type for condition in news} - before.keys():
        return False
    if any(_is_alarm(condition, before[condition.type]) for condition in news):
        return False
    return -_SKEW_S <= measure_since_status_s(owner, now) < _compute_refill_s(_replicas(owner))


def has_only_conditions(owner: Object, is_ready: bool) -> bool:
    """Return True for a deployment's first answer, which has conditions only: counts are another write."""
    return COMPOSERS[owner["kind"]].lane is Lane.DECISIONS and not is_ready and not list_own_conditions(owner)


def measure_since_status_s(owner: Object, now: datetime) -> float:
    """Return the seconds since an object last changed its own conditions."""
    times = [str(condition.get("lastTransitionTime", "")) for condition in list_own_conditions(owner)]
    return _age(max(times, default=""), now)


def compute_settling_s(owner: Object, now: datetime) -> int:
    """Return the seconds until an object can change its status again."""
    return max(1, round(_compute_refill_s(_replicas(owner)) - measure_since_status_s(owner, now) + 0.5))


def _is_alarm(condition: Condition, before: Mapping[str, Any]) -> bool:
    warns = is_warning(condition.type, condition.reason, holds=condition.holds)
    return warns and condition.reason != before.get("reason")


def list_own_conditions(owner: Object) -> list[Mapping[str, Any]]:
    """Return the conditions that Crossplane does not own."""
    return [item for item in list_conditions(owner) if item.get("type") not in _CROSSPLANES]


def list_conditions(owner: Object) -> list[Mapping[str, Any]]:
    """Return every condition of an owner; empty for a malformed status."""
    status = owner.get("status")
    listed = status.get("conditions") if isinstance(status, Mapping) else None
    return [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
