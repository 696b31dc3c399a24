"""An InferenceAutoscaler composes nothing: its status tells what the controllers have decided."""

from typing import Any

from modelplane.api.conditions.reasons import (
    InferenceAutoscalerCondition as Type,
    InferenceAutoscalerReason as Reason,
    ModelDeploymentCondition,
    ModelDeploymentReason,
)
from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.listing import count_noun
from modelplane.api.meta import API_VERSION, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.composition import Blocked, Composition, Requirement
from modelplane.compose.conditions import Condition, false, list_written, true
from modelplane.compose.facts import AutoscalerRequest
from modelplane.compose.readiness import condition_of
from modelplane.deciders.autoscaling.autoscaler_state import AutoscalerState, Inert

_DEPLOYMENT = "deployment"
_WITHOUT_PLACE = (
    ModelDeploymentReason.INSUFFICIENT_CAPACITY,
    ModelDeploymentReason.NO_CLUSTERS,
    ModelDeploymentReason.QUOTA_EXCEEDED,
    ModelDeploymentReason.PREEMPTED,
)


def requirements(autoscaler: InferenceAutoscaler) -> tuple[Requirement, ...]:
    """Return the deployment."""
    name, namespace = autoscaler.spec.deployment_ref.name, autoscaler.metadata.namespace
    return (Requirement(_DEPLOYMENT, API_VERSION, kind_name(ModelDeployment), namespace, name),)


def compose(request: AutoscalerRequest) -> Composition | Blocked:
    """State whether the deployment is scaled, and the last decision."""
    if unknown := request.unknown(_DEPLOYMENT):
        return Blocked(f"cannot read the ModelDeployment: {unknown.cause}")
    state = request.facts.autoscaling
    if state is not None and state.reading and request.found(_DEPLOYMENT) and not request.owner.spec.paused:
        # The counts have not been looked at yet, and they may be there.
        said = list_written(request.owner.status, (Type.SCALING_ACTIVE, Type.SCALING_LIMITED))
        ready = any(condition.type == Type.SCALING_ACTIVE and _is_ready(condition) for condition in said)
        return Composition(status=_status(state), conditions=said, ready=ready)
    active = _active(request)
    limited = _limited(request, state) if state and state.inert is not Inert.OTHER_WRITER else ()
    return Composition(status=_status(state), conditions=(active, *limited), ready=_is_ready(active))


def _is_ready(active: Condition) -> bool:
    """Return True if an autoscaler does what the user asked for; every other reason needs action."""
    return active.holds or active.reason in {Reason.PAUSED, Reason.STANDBY}


def _active(request: AutoscalerRequest) -> Condition:
    spec = request.owner.spec
    if not request.found(_DEPLOYMENT):
        message = f'ModelDeployment "{spec.deployment_ref.name}" does not exist: create it'
        return false(Type.SCALING_ACTIVE, Reason.DEPLOYMENT_NOT_FOUND, message)
    if request.facts.autoscaling is None:
        message = (
            "only `modelplane controller` reads the gateway's load, so the number of replicas doesn't "
            "change: under Crossplane, scale with KEDA or a HorizontalPodAutoscaler"
        )
        return false(Type.SCALING_ACTIVE, Reason.UNSUPPORTED, message)
    if spec.paused:
        message = "spec.paused is true, so the number of replicas does not change"
        return false(Type.SCALING_ACTIVE, Reason.PAUSED, message)
    if request.facts.autoscaling.inert is not None:
        return false(Type.SCALING_ACTIVE, request.facts.autoscaling.inert, request.facts.autoscaling.problem)
    message = "the gateway's counts determine the number of replicas"
    if spec.targets.time_to_first_token_milliseconds and request.facts.gateway_without_module:
        message += f", without the time to the first token: {request.facts.gateway_without_module}"
    return true(Type.SCALING_ACTIVE, Reason.MEASURED, message)


def _limited(request: AutoscalerRequest, state: AutoscalerState) -> tuple[Condition, ...]:
    """Tell whether replicas that the load needs are out of reach; nothing while it is unknown."""
    type_ = Type.SCALING_LIMITED
    if state.limited:
        most = count_noun(request.owner.spec.max_replicas, "replica")
        return (true(type_, Reason.TOO_MANY_REPLICAS, f"the load requires more than maxReplicas, {most}"),)
    for deployment in request.found(_DEPLOYMENT):
        scheduled = condition_of(deployment, ModelDeploymentCondition.REPLICAS_SCHEDULED)
        if scheduled.get("reason") in _WITHOUT_PLACE:
            message = f"not all replicas can be placed: {scheduled.get('message', '')}"
            return (true(type_, Reason.INSUFFICIENT_CAPACITY, message),)
    if state.limited is None:
        return ()
    message = "maxReplicas is high enough for the load, and all replicas are placed"
    return (false(type_, Reason.WITHIN_BOUNDS, message),)


def _status(state: AutoscalerState | None) -> dict[str, Any]:
    if state is None:
        return {}
    status: dict[str, Any] = {"replicas": {"desired": state.desired, "ready": state.ready}}
    if state.decision:
        status |= {"decision": state.decision, "lastScaleTime": state.changed}
    if state.open_schedules:
        status["openSchedules"] = list(state.open_schedules)
    if state.cold_start_s is not None:
        status["coldStartSeconds"] = state.cold_start_s
    if state.counts is not None:
        counts = state.counts
        status["load"] = {
            "time": counts.time,
            "inFlight": counts.in_flight,
            "held": counts.held,
            "tokensPerSecond": counts.tokens_per_second,
        }
        if counts.first_token_ms is not None:
            status["load"]["timeToFirstTokenMilliseconds"] = counts.first_token_ms
    return status
