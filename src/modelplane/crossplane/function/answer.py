"""What Crossplane is told: children, status, conditions, events.

Every answer names every child that is to stay, because Crossplane deletes what an answer
leaves out. So an answer that decides nothing gives back all that is there.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.api.names import composed_name
from modelplane.api.reason_meanings import ALARMING
from modelplane.api.reasons import ModelReplicaReason
from modelplane.compose import status
from modelplane.compose.composition import Composition, Desired, Keep, Object
from modelplane.compose.conditions import READY, Condition
from modelplane.compose.kinds import COMPOSERS, Lane
from modelplane.compose.readiness import exists
from modelplane.crossplane.function import economy, pace, remote
from modelplane.crossplane.function.companions import (
    IN_USE,
    NAMESPACE,
    PREFIX,
    PROVIDER_CONFIG,
    provider_config_name,
)
from modelplane.crossplane.function.observation import Observation
from modelplane.crossplane.function.owned_fields import owned
from modelplane.crossplane.function.requirements import Answers
from modelplane.crossplane.function.structs import to_struct

_LONGEST_MESSAGE = 1024
"""What a message of an Event may have (Kubernetes API reference, "Event v1")."""

_TARGET = fnv1.TARGET_COMPOSITE
_STATUSES = {"True": fnv1.STATUS_CONDITION_TRUE, "False": fnv1.STATUS_CONDITION_FALSE}


def answer(request: Any, kind: str) -> fnv1.RunFunctionResponse:
    """Return an answer that passes on what other functions said, and decides nothing yet."""
    desired = fnv1.State.FromString(request.desired.SerializeToString())
    response = fnv1.RunFunctionResponse(desired=desired, context=request.context)
    response.meta.tag = request.meta.tag
    response.meta.ttl.seconds = pace.usual(kind)
    return response


def keep_everything(
    response: fnv1.RunFunctionResponse, owner: Object, composed: Mapping[str, Object]
) -> None:
    """Have everything stay as it is: children, status, conditions."""
    for key, item in composed.items():
        _put(response, key, owned(item), ready=True)
    _put_status(response, _known_status(owner))
    is_ready = any(
        each.get("type") == READY and each.get("status") == "True" for each in pace.conditions_of(owner)
    )
    response.desired.composite.ready = fnv1.READY_TRUE if is_ready else fnv1.READY_FALSE
    for condition in pace.own_conditions(owner):
        said = (str(condition.get(name, "")) for name in ("type", "status", "reason", "message"))
        _put_condition(response, *said)


def _known_status(owner: Object) -> Mapping[str, Any]:
    """Return what an owner's status says of what it is, without conditions and Crossplane's own notes."""
    known = _mapping(owner.get("status"))
    return {name: said for name, said in known.items() if name not in ("conditions", "crossplane")}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def refuse(response: fnv1.RunFunctionResponse, message: str) -> None:
    """Say that nothing can be decided, and why; Crossplane then applies nothing."""
    response.results.append(
        fnv1.Result(severity=fnv1.SEVERITY_FATAL, message=message[:_LONGEST_MESSAGE], target=_TARGET)
    )


def decide(
    response: fnv1.RunFunctionResponse,
    owner: Object,
    observation: Observation,
    composition: Composition,
    companions: Iterable[tuple[str, Object]],
    given: Answers,
    now: datetime,
) -> None:
    """Say what was composed."""
    revision, reached, composed = given.revision(), given.reaches_cluster(), observation.composed
    composition, look_in = pace.paced(composition, composed, now)

    def put(key: str, manifest: Object, *, ready: bool) -> None:
        name = composed_name(owner["metadata"]["name"], key)
        whole = economy.settled(manifest, name, composed.get(key), revision, reached=reached)
        _put(response, key, whole, ready=ready)

    for child in composition.children:
        if isinstance(child, Keep):
            if child.key in composed:
                _put(response, child.key, owned(composed[child.key]), ready=True)
        else:
            put(child.key, _manifest(child), ready=_is_ready(child, observation))
    for key in _unobserved(observation, composition):
        _put(response, key, owned(composed[key]), ready=True)
    for key, manifest in companions:
        put(key, manifest, ready=True)
    for key in _still_needed(response, observation):
        _put(response, key, owned(composed[key]), ready=True)
    _speak(response, owner, observation, composition, now)
    if look_in:
        response.meta.ttl.seconds = min(response.meta.ttl.seconds, look_in)


def _speak(
    response: fnv1.RunFunctionResponse,
    owner: Object,
    observation: Observation,
    composition: Composition,
    now: datetime,
) -> None:
    """Say how the owner is, what is news of that, and when to ask again."""
    before = pace.conditions_of(owner)
    is_ready = status.ready(composition, observation.children, before).holds
    response.desired.composite.ready = fnv1.READY_TRUE if is_ready else fnv1.READY_FALSE
    row = COMPOSERS[str(owner["kind"])]
    said = {name: value for name, value in composition.status.items() if name not in row.only_controllers}
    conditions = [*_explained(composition.conditions, observation)]
    state = pace.State(
        is_ready,
        is_leaving=bool(owner["spec"].get("draining")),
        awaits=row.lane is Lane.DECISIONS and not composition.unsatisfied,
        is_failing=bool(observation.problems),
        is_news={*conditions} != {*_repeated(owner)},
    )
    response.meta.ttl.seconds = pace.seconds(owner, state, now)
    if pace.repeats(owner, conditions, is_ready, now):
        response.meta.ttl.seconds = min(response.meta.ttl.seconds, pace.until_settled(owner, now))
        said, conditions = dict(_known_status(owner)), [*_repeated(owner)]
    elif pace.only_conditions(owner, is_ready):
        said = {}
    _put_status(response, said)
    for condition in conditions:
        _put_condition(response, condition.type, condition.status, condition.reason, condition.message)
    for condition in status.transitions(conditions, before):
        alarming = not condition.holds and condition.reason in ALARMING
        response.results.append(
            fnv1.Result(
                severity=fnv1.SEVERITY_WARNING if alarming else fnv1.SEVERITY_NORMAL,
                message=(condition.message or condition.reason)[:_LONGEST_MESSAGE],
                reason=condition.reason,
                target=_TARGET,
            )
        )


def _repeated(owner: Object) -> Iterable[Condition]:
    """Yield the conditions of an owner as they are."""
    for each in pace.own_conditions(owner):
        reason, message = str(each.get("reason", "")), str(each.get("message", ""))
        yield Condition(str(each["type"]), each.get("status") == "True", reason, message)


def _manifest(child: Desired) -> Object:
    if child.cluster:
        return remote.write(child, provider_config_name(child.cluster))
    return child.manifest


def _is_ready(child: Desired, observation: Observation) -> bool:
    """Whether a child is ready; one that only has to be there is not waited for, which saves an update."""
    if child.ready is exists:
        return True
    seen = observation.children.get(child.key)
    return seen is not None and child.ready(seen)


def _unobserved(observation: Observation, composition: Composition) -> Iterable[str]:
    """Yield children that nobody spoke of because nobody can see them yet.

    Where everything else is decided, one that its cluster has refused to create goes.
    """
    named = {child.key for child in composition.children}
    decided = any(isinstance(child, Desired) for child in composition.children)
    for key in sorted(observation.unobserved - named):
        refused = observation.problems.get(key, "").startswith(remote.NOT_CREATED)
        if not (decided and refused):
            yield key


def _still_needed(response: fnv1.RunFunctionResponse, observation: Observation) -> list[str]:
    """Return the companions that nobody asked for now and that must not go.

    That is a namespace that is still written to by what stays, and the way to a cluster: while an
    InferenceCluster does not say how it is reached, what is on the cluster is reached as before.
    """
    desired = response.desired.resources
    used = {_provider_config(child.resource) for key, child in desired.items() if not key.startswith(PREFIX)}
    left = {key: item for key, item in observation.composed.items() if key not in desired}
    connected = PROVIDER_CONFIG in desired
    return [
        key
        for key, item in left.items()
        if (
            key.startswith(NAMESPACE)
            and item.get("spec", {}).get("providerConfigRef", {}).get("name") in used
        )
        or (key.startswith(PREFIX) and not key.startswith(NAMESPACE) and key != IN_USE and not connected)
    ]


def _provider_config(struct: Any) -> str:
    spec = struct.fields["spec"].struct_value if "spec" in struct.fields else None
    if spec is None or "providerConfigRef" not in spec.fields:
        return ""
    return str(spec.fields["providerConfigRef"].struct_value.fields["name"].string_value)


def _explained(conditions: Iterable[Condition], observation: Observation) -> Iterable[Condition]:
    """Yield the conditions, the first that does not hold with what the provider could not do.

    What nobody can read is said in any case, if need be by a condition that holds.
    """
    listed = list(conditions)
    first = next((number for number, each in enumerate(listed) if not each.holds), None)
    causes = [cause for _, cause in sorted(observation.unreadable.items())]
    unreachable = any(each.reason == ModelReplicaReason.CLUSTER_UNREACHABLE for each in listed)
    # Of an unreachable cluster the one cause of all these is told already.
    if first is not None and not unreachable:
        causes += [f'cannot write "{key}": {cause}' for key, cause in observation.problems.items()]
    for number, each in enumerate(listed):
        if number == (first or 0) and causes and causes[0] not in each.message:
            message = "; ".join(part for part in (each.message, causes[0]) if part)
            yield Condition(each.type, each.holds, each.reason, message)
        else:
            yield each


def _put(response: fnv1.RunFunctionResponse, key: str, manifest: Object, *, ready: bool) -> None:
    child = response.desired.resources[key]
    child.resource.CopyFrom(to_struct(manifest))
    child.ready = fnv1.READY_TRUE if ready else fnv1.READY_FALSE


def _put_status(response: fnv1.RunFunctionResponse, written: Mapping[str, Any]) -> None:
    # An empty one would be a change of an object that has none.
    if written:
        response.desired.composite.resource.update({"status": written})


def _put_condition(
    response: fnv1.RunFunctionResponse, type_: str, is_true: str, reason: str, message: str
) -> None:
    response.conditions.append(
        fnv1.Condition(
            type=type_,
            status=_STATUSES.get(is_true, fnv1.STATUS_CONDITION_UNKNOWN),
            reason=reason,
            message=message[: status.LONGEST_MESSAGE],
            target=_TARGET,
        )
    )
