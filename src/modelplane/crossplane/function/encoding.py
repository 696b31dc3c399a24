"""Encoding of answers in Crossplane's protocol."""

from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from modelplane.compose.owner_status import LONGEST_MESSAGE
from modelplane.crossplane.function.answer import Answer
from modelplane.crossplane.function.requirements import selectors

_LONGEST_EVENT = 1024
"""Length limit for the message of an Event (Kubernetes API reference, "Event v1")."""

_TARGET = fnv1.TARGET_COMPOSITE
_STATUSES = {"True": fnv1.STATUS_CONDITION_TRUE, "False": fnv1.STATUS_CONDITION_FALSE}


def encode(answer: Answer, request: Any, earlier: fnv1.State) -> fnv1.RunFunctionResponse:
    """Return the response to a ``RunFunctionRequest``, with the desired state of earlier functions."""
    response = fnv1.RunFunctionResponse(desired=earlier, context=request.context)
    response.meta.tag = request.meta.tag
    response.meta.ttl.seconds = answer.ttl_s
    response.requirements.CopyFrom(selectors(answer.requirements))
    if answer.blocked:
        response.results.append(fatal(answer.blocked.cause))
    for key, child in answer.children.items():
        resource = response.desired.resources[key]
        resource.resource.Clear()
        resource.resource.update(child.manifest)
        resource.ready = _ready(child.ready)
    # An empty status would change an object that has none.
    if answer.status:
        response.desired.composite.resource.update({"status": answer.status})
    if answer.ready is not None:
        response.desired.composite.ready = _ready(answer.ready)
    for said in answer.conditions:
        response.conditions.add(
            type=said.type,
            status=_STATUSES.get(said.status, fnv1.STATUS_CONDITION_UNKNOWN),
            reason=said.reason,
            message=said.message[:LONGEST_MESSAGE],
            target=_TARGET,
        )
    for event in answer.events:
        response.results.add(
            severity=fnv1.SEVERITY_WARNING if event.is_warning else fnv1.SEVERITY_NORMAL,
            message=event.message[:_LONGEST_EVENT],
            reason=event.reason,
            target=_TARGET,
        )
    return response


def fatal(message: str) -> fnv1.Result:
    """Return the result that keeps Crossplane from applying anything."""
    return fnv1.Result(severity=fnv1.SEVERITY_FATAL, message=message[:_LONGEST_EVENT], target=_TARGET)


def desired_before(request: Any) -> fnv1.State:
    """Return the desired state that earlier functions of the pipeline composed.

    Raises ``DecodeError`` if it is nested too deeply.
    """
    return fnv1.State.FromString(request.desired.SerializeToString())


def _ready(is_ready: bool) -> fnv1.Ready:
    return fnv1.READY_TRUE if is_ready else fnv1.READY_FALSE
