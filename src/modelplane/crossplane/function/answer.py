"""Answers to Crossplane, as values: children, status, conditions, events.

Crossplane deletes each child that an answer leaves out. So an answer that decides nothing
names every observed child.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from modelplane.api.conditions.reasons import ModelReplicaReason, is_warning
from modelplane.api.meta import Object
from modelplane.api.names import name_composed
from modelplane.compose import owner_status as status
from modelplane.compose.child_marks import mark
from modelplane.compose.composition import Blocked, Composition, Desired, Keep, Requirement
from modelplane.compose.conditions import READY, Condition
from modelplane.compose.kinds import COMPOSERS, Lane
from modelplane.compose.readiness import exists
from modelplane.compose.workload_kinds import is_release
from modelplane.crossplane.function import applied_fields, pace, remote_objects
from modelplane.crossplane.function.applied_fields import owned
from modelplane.crossplane.function.companions import IN_USE, NAMESPACE, PREFIX, PROVIDER_CONFIG, connection
from modelplane.crossplane.function.observation import Observation
from modelplane.crossplane.function.requirements import RequiredResources


class Child(NamedTuple):
    """A composed resource that is to exist."""

    manifest: Object
    ready: bool = True


class Statement(NamedTuple):
    """A condition of the owner."""

    type: str
    status: str
    reason: str
    message: str


class Event(NamedTuple):
    """An event about the owner."""

    reason: str
    message: str
    is_warning: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to one request."""

    ttl_s: int
    children: Mapping[str, Child] = field(default_factory=dict)
    """The children by key; Crossplane deletes every other one."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """The owner's status without conditions; empty leaves the status as it is."""
    conditions: tuple[Statement, ...] = ()
    events: tuple[Event, ...] = ()
    ready: bool | None = None
    """True if the owner is ready; None leaves that to Crossplane."""
    requirements: tuple[Requirement, ...] = ()
    blocked: Blocked | None = None
    """The cause of a fatal answer, which Crossplane does not apply."""


def kept(kind: str, owner: Object, composed: Mapping[str, Object]) -> Answer:
    """Return an answer that keeps children, status and conditions as they are."""
    known = pace.list_conditions(owner)
    return Answer(
        pace.read_usual_ttl_s(kind),
        {key: Child(owned(item)) for key, item in composed.items()},
        _read_status(owner),
        tuple(
            Statement(*(str(condition.get(name, "")) for name in Statement._fields))
            for condition in pace.list_own_conditions(owner)
        ),
        ready=any(entry.get("type") == READY and entry.get("status") == "True" for entry in known),
    )


def _read_status(owner: Object) -> Mapping[str, Any]:
    """Return an owner's status without conditions and without Crossplane's own fields."""
    known = _mapping(owner.get("status"))
    return {name: value for name, value in known.items() if name not in ("conditions", "crossplane")}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def decided(
    owner: Object,
    observation: Observation,
    composition: Composition,
    companions: Iterable[tuple[str, Object]],
    given: RequiredResources,
    now: datetime,
) -> Answer:
    """Return the answer for a composition."""
    composition, look_in = pace.pace_changes(composition, observation.composed, now)
    revision, reached, observed = given.revision(), given.reaches_cluster(), observation.composed
    composed = _list_children(owner, composition, observation)
    placeholders = (
        (placeholder.key, Child(placeholder.manifest)) for placeholder in composition.placeholders
    )
    desired = [*composed, *placeholders, *((key, Child(companion)) for key, companion in companions)]
    children = {}
    for key, child in desired:
        name = name_composed(owner["metadata"]["name"], key)
        manifest = applied_fields.settled(child.manifest, name, observed.get(key), revision, reached=reached)
        children[key] = Child(manifest, child.ready)
    children |= {key: Child(owned(observed[key])) for key in _list_kept_keys(composition, observation)}
    children |= {key: Child(owned(observed[key])) for key in _still_needed(children, observation)}
    answer = _report(owner, observation, composition, now)
    again_in = math.ceil(composition.again_in_s or answer.ttl_s)
    ttl_s = min(answer.ttl_s, look_in or answer.ttl_s, again_in)
    return replace(answer, children=children, ttl_s=ttl_s)


def _list_children(
    owner: Object, composition: Composition, observation: Observation
) -> Iterator[tuple[str, Child]]:
    """Yield the children that a composition of an owner desires, by key."""
    for child in composition.children:
        if isinstance(child, Desired):
            manifest, used = child.manifest, connection(owner["kind"], child.cluster)
            if is_release(manifest):
                manifest = remote_objects.write(child, used)
            elif child.cluster:
                manifest = remote_objects.write(
                    msgspec.structs.replace(child, manifest=mark(owner, child)), used
                )
            seen = observation.children.get(child.key)
            # A child that only has to exist counts as ready at once, which saves an update.
            is_ready = child.ready is exists or (seen is not None and child.ready(seen))
            yield child.key, Child(manifest, is_ready)


def _list_kept_keys(composition: Composition, observation: Observation) -> Iterator[str]:
    """Yield the keys of the children to keep as they are.

    These are the children that the composition keeps, and those not observed yet. A child that its cluster
    refused to create is pruned if the composition decides anything.
    """
    for child in composition.children:
        if isinstance(child, Keep) and child.key in observation.composed:
            yield child.key
    named = {child.key for child in composition.children}
    is_decided = any(isinstance(child, Desired) for child in composition.children)
    for key in sorted(observation.unobserved - named):
        refused = observation.problems.get(key, "").startswith(remote_objects.NOT_CREATED)
        if not (is_decided and refused):
            yield key


def _still_needed(children: Mapping[str, Child], observation: Observation) -> list[str]:
    """Return the keys of companions that this answer does not compose and must not delete.

    These are the namespaces of remaining children on clusters, and the connection to a cluster whose
    InferenceCluster does not describe it.
    """
    used = {_provider_config(child.manifest) for key, child in children.items() if not key.startswith(PREFIX)}
    is_connected = PROVIDER_CONFIG in children
    return [
        key
        for key, item in observation.composed.items()
        if key not in children
        and (
            (key.startswith(NAMESPACE) and _provider_config(item) in used - {""})
            or (
                key.startswith(PREFIX)
                and not key.startswith(NAMESPACE)
                and key != IN_USE
                and not is_connected
            )
        )
    ]


def _provider_config(item: Object) -> str:
    return str(_mapping(_mapping(item.get("spec")).get("providerConfigRef")).get("name", ""))


def _report(owner: Object, observation: Observation, composition: Composition, now: datetime) -> Answer:
    """Return an answer without children: the owner's status, events for its changes, and the time to live."""
    before = pace.list_conditions(owner)
    is_ready = status.derive_ready(composition, observation.children, before).holds
    row = COMPOSERS[str(owner["kind"])]
    written = {name: value for name, value in composition.status.items() if name not in row.only_controllers}
    conditions = [*_explained(composition.conditions, observation)]
    awaits = not composition.unsatisfied if row.lane is Lane.DECISIONS else pace.overflows(composition)
    state = pace.OwnerState(
        is_ready,
        is_leaving=bool(owner["spec"].get("draining")),
        awaits=awaits,
        is_failing=bool(observation.problems),
        is_news={*conditions} != {*_repeated(owner)},
    )
    ttl_s = pace.compute_ttl_s(owner, state, now)
    if pace.repeats_status(owner, conditions, is_ready, now):
        ttl_s = min(ttl_s, pace.compute_settling_s(owner, now))
        written, conditions = dict(_read_status(owner)), [*_repeated(owner)]
    elif pace.has_only_conditions(owner, is_ready):
        written = {}
    return Answer(
        ttl_s,
        status=written,
        conditions=tuple(
            Statement(condition.type, condition.status, condition.reason, condition.message)
            for condition in conditions
        ),
        events=tuple(map(_event, status.list_transitions(conditions, before))),
        ready=is_ready,
    )


def _event(condition: Condition) -> Event:
    warns = is_warning(condition.type, condition.reason, holds=condition.holds)
    return Event(condition.reason, condition.message or condition.reason, warns)


def _repeated(owner: Object) -> Iterator[Condition]:
    for reported in pace.list_own_conditions(owner):
        reason, message = str(reported.get("reason", "")), str(reported.get("message", ""))
        yield Condition(str(reported["type"]), reported.get("status") == "True", reason, message)


def _explained(conditions: Iterable[Condition], observation: Observation) -> Iterator[Condition]:
    """Yield the conditions; the first false one also carries the provider's error.

    An unreadable child is always reported, if necessary in a condition that is true.
    """
    listed = list(conditions)
    first = next((number for number, stated in enumerate(listed) if not stated.holds), None)
    causes = [cause for _, cause in sorted(observation.unreadable.items())]
    unreachable = any(condition.reason == ModelReplicaReason.CLUSTER_UNREACHABLE for condition in listed)
    # For an unreachable cluster, the condition already has the common cause.
    if first is not None and not unreachable:
        causes += [f'cannot write "{key}": {cause}' for key, cause in observation.problems.items()]
    for number, stated in enumerate(listed):
        if number == (first or 0) and causes and causes[0] not in stated.message:
            message = "; ".join(part for part in (stated.message, causes[0]) if part)
            yield Condition(stated.type, stated.holds, stated.reason, message)
        else:
            yield stated
