"""How fast things go: new children, writes of a status, looks at what may have changed unseen.

Crossplane counts the changes of an object and of its children in a bucket of a hundred, refilled by one a
second, and looks away from the object for minutes once that is empty. It also applies every child anew each
time it looks. So many children are made in waves, a status on its way to Ready is written every few seconds
instead of with each child, and what has been quiet for long is looked at less often.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from modelplane.api.decode import decode_as
from modelplane.api.meta import kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.api.reason_meanings import ALARMING
from modelplane.compose.composition import Composition, Desired, Keep, Object
from modelplane.compose.conditions import READY, SYNCED, Condition
from modelplane.compose.kinds import COMPOSERS, Lane, Pace
from modelplane.compose.readiness import condition_of, is_true
from modelplane.compose.rollout import is_draining, same_spec

RESPONSIVE = "Responsive"
"""The condition by which Crossplane says whether it listens to the events of an object."""

_CROSSPLANES = frozenset({READY, SYNCED, RESPONSIVE})

_WAVE = 10
"""How many new replicas may be under way at once: as many as the bucket holds."""

_PATIENCE_S = 20.0
"""How long the next wave waits for a replica that Crossplane has not composed yet."""

_SOAK_S = 10.0
"""How long all other replicas have been the same before one that serves is edited."""

_SETTLE_S = 10.0
"""How long an object of a kind that settles says the same while it is not ready, unless somebody must act."""

_SKEW_S = 1.0
"""How far apart the clocks of Crossplane and the function may be for that; times are whole seconds."""

_DEAF_S = 360.0
"""How long Crossplane drops events once it has begun to: five minutes, and a look that shows it."""

_SOON_S = 2
_FAILING_S = 60
_UNKNOWN = Pace()
"""Of a kind that is none of ours."""

_REPLICA = kind_name(ModelReplica)


@dataclass(frozen=True, slots=True)
class State:
    """What decides when an object is looked at again."""

    is_ready: bool
    is_leaving: bool = False
    """Whether it is about to go, which others wait for."""
    awaits: bool = False
    """Whether something is about to happen that Crossplane may not tell of."""
    is_failing: bool = False
    """Whether something of it could not be made or looked at."""
    is_news: bool = False
    """Whether this answer says something else than the last one."""


def usual(kind: str) -> int:
    """Return for how many seconds an answer is good about which nothing more is known."""
    return _of(kind).usual_s


def _of(kind: str) -> Pace:
    row = COMPOSERS.get(kind)
    return row.pace if row else _UNKNOWN


def seconds(owner: Object, state: State, now: datetime) -> int:
    """Return for how many seconds an answer is good.

    The longer an object has said the same, the longer; ready ones at most minutes. Each has its own share
    of that, so that a fleet that was made at once is not looked at at once.
    """
    if state.is_leaving:
        return _SOON_S
    kind, since = str(owner["kind"]), 0.0 if state.is_news else quiet(owner, now)
    ordinary = usual(kind)
    if not state.is_ready:
        hurries = state.awaits or is_deaf(owner, now)
        return int(min(max(_SOON_S, since / 4), ordinary)) if hurries else ordinary
    longest = _FAILING_S if state.is_failing else _of(kind).longest_s or ordinary
    if is_deaf(owner, now) or longest <= ordinary:
        return ordinary
    within = int(min(max(ordinary, since / 2), longest))
    return within - within * _share(str(owner["metadata"].get("uid", ""))) // 500


def _share(uid: str) -> int:
    """Return a number below a hundred that is always the same for an object."""
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4], "big") % 100


def quiet(owner: Object, now: datetime) -> float:
    """Return for how many seconds an object's conditions have been the same; zero where it has none."""
    times = [str(each.get("lastTransitionTime", "")) for each in conditions_of(owner)]
    return max(0.0, _age(max(times, default=""), now))


def _age(time: str, now: datetime) -> float:
    """Return how many seconds ago a time was; negative where the writer's clock is ahead."""
    try:
        return (now - datetime.fromisoformat(time)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def is_deaf(owner: Object, now: datetime) -> bool:
    """Whether Crossplane drops the events of an object.

    It says so until the next event that it lets through, which after a while is any.
    """
    said = condition_of(owner, RESPONSIVE)
    return said.get("status") == "False" and _age(str(said.get("lastTransitionTime", "")), now) < _DEAF_S


class Paced(NamedTuple):
    """As much of a composition as is to be done now."""

    composition: Composition
    look_in: int = 0
    """In how many seconds the rest may follow; zero where nothing is left."""


def paced(composition: Composition, composed: Mapping[str, Object], now: datetime) -> Paced:
    """Return a composition with as many new replicas and edits as may be made now.

    A replica that is not there yet can be left out of an answer: nothing is deleted by that. One that is not
    edited yet is kept as it is.
    """
    new = [child.key for child in composition.children if _is_new_replica(child, composed)]
    under_way = sum(_is_under_way(each, now) for each in composed.values())
    later = frozenset(new[max(0, _WAVE - under_way) :])
    waits = {
        child.key: wait
        for child in composition.children
        if _is_edit(child, composed) and (wait := _unrest(child.key, composed, now)) > 0
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


def _is_new_replica(child: Desired | Keep, composed: Mapping[str, Object]) -> bool:
    is_replica = isinstance(child, Desired) and child.manifest["kind"] == _REPLICA
    return is_replica and child.key not in composed


def _is_under_way(child: Object, now: datetime) -> bool:
    """Whether Crossplane has yet to compose a replica, and is expected to."""
    if child["kind"] != _REPLICA or condition_of(child, SYNCED):
        return False
    return _age(str(child["metadata"].get("creationTimestamp", "")), now) < _PATIENCE_S


def _is_edit(child: Desired | Keep, composed: Mapping[str, Object]) -> bool:
    """Whether a replica that serves is to be edited."""
    there = composed.get(child.key)
    if not isinstance(child, Desired) or there is None or there["kind"] != _REPLICA:
        return False
    is_serving = is_true(there, READY) and not is_draining(there)
    return (
        is_serving
        and not is_draining(child.manifest)
        and not same_spec(decode_as(ModelReplica, child.manifest), _bare(there))
    )


def _bare(replica: Object) -> Object:
    spec = {name: value for name, value in replica["spec"].items() if name != "crossplane"}
    return {**replica, "spec": spec}


def _unrest(key: str, composed: Mapping[str, Object], now: datetime) -> float:
    """Return for how many seconds the other replicas are not yet known to serve on.

    That also leaves Crossplane's bucket the time that it takes to fill again.
    """
    others = (each for name, each in composed.items() if name != key and each["kind"] == _REPLICA)
    times = [str(said.get("lastTransitionTime", "")) for each in others for said in conditions_of(each)]
    return _SOAK_S - max(0.0, _age(max(times), now)) if times else 0.0


def repeats(owner: Object, said: Sequence[Condition], is_ready: bool, now: datetime) -> bool:
    """Whether an object had better say what it said last, though there is something new.

    That is while it is on its way to Ready and has just spoken, unless somebody must act on the news.
    """
    if (
        is_ready
        or not COMPOSERS[owner["kind"]].pace.settles
        or condition_of(owner, READY).get("status") != "False"
    ):
        return False
    before = {str(each.get("type")): each for each in own_conditions(owner)}
    if {each.type for each in said} - before.keys():
        return False
    if any(_is_alarm(each, before[each.type]) for each in said):
        return False
    return -_SKEW_S <= last_said(owner, now) < _SETTLE_S


def only_conditions(owner: Object, is_ready: bool) -> bool:
    """Whether a deployment's first word is in conditions alone: its counts are a write of their own."""
    return COMPOSERS[owner["kind"]].lane is Lane.DECISIONS and not is_ready and not own_conditions(owner)


def last_said(owner: Object, now: datetime) -> float:
    """Return how many seconds ago an object changed what it says of itself."""
    times = [str(each.get("lastTransitionTime", "")) for each in own_conditions(owner)]
    return _age(max(times, default=""), now)


def until_settled(owner: Object, now: datetime) -> int:
    """Return in how many seconds an object may speak again."""
    return max(1, round(_SETTLE_S - last_said(owner, now) + 0.5))


def _is_alarm(said: Condition, before: Mapping[str, Any]) -> bool:
    return not said.holds and said.reason in ALARMING and said.reason != before.get("reason")


def own_conditions(owner: Object) -> list[Mapping[str, Any]]:
    """Return the conditions that are not Crossplane's own."""
    return [each for each in conditions_of(owner) if each.get("type") not in _CROSSPLANES]


def conditions_of(owner: Object) -> list[Mapping[str, Any]]:
    """Return every condition of an owner, however its status is made."""
    status = owner.get("status")
    listed = status.get("conditions") if isinstance(status, Mapping) else None
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
