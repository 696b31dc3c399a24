"""Conditions of the gateway and of a ModelKey: is a key required, and is this one in force."""

from modelplane.api.conditions.reasons import InferenceGatewayCondition, ModelKeyCondition
from modelplane.api.conditions.reasons import InferenceGatewayReason as Reason
from modelplane.api.conditions.reasons import ModelKeyReason as KeyReason
from modelplane.api.inference_gateway import DEFAULT_NAME, Authentication, Backend, InferenceGateway
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.gateway.gateway_facts import GatewayRequest
from modelplane.compose.key.key_facts import KeyRequest

_TYPE = InferenceGatewayCondition.AUTHENTICATED


def authenticated(request: GatewayRequest) -> Condition:
    """State whether a request to the gateway needs a key."""
    asked = request.owner.spec.authentication
    if asked is not Authentication.API_KEY:
        value = "is None" if asked else "is absent"
        message = (
            f"the gateway serves every request, because spec.authentication {value}: set it to APIKey, and "
            "create keys with `modelplane key create`"
        )
        return false(_TYPE, Reason.OPEN, message)
    if would_open(request):
        message = "the backend does not read ModelKeys, so no service is published there"
        return false(_TYPE, Reason.NOT_ENFORCED, message)
    if request.facts.proxy is not Backend.ENVOY:
        message = (
            f"spec.authentication APIKey has no effect: backend {request.owner.spec.backend} does not read "
            "ModelKeys, so the gateway serves every request: use backend Envoy, or restrict access to the "
            "Gateway by other means"
        )
        return false(_TYPE, Reason.NOT_ENFORCED, message)
    if request.facts.without_module:
        message = f"the gateway serves no request: {request.facts.without_module}"
        return false(_TYPE, Reason.MODULE_MISSING, message)
    if not request.facts.asks_for_keys:
        return false(_TYPE, Reason.CONFIGURING, "the gateway does not ask for keys yet")
    return true(_TYPE, Reason.API_KEY, "a request needs the key of a ModelKey")


def would_open(request: GatewayRequest) -> bool:
    """Return True if a backend without keys would publish services that are to have them.

    A backend that has published them keeps serving, and a condition says that it asks for no key.
    """
    is_asked = request.owner.spec.authentication is Authentication.API_KEY
    published = request.owner.status.backend not in (None, Backend.ENVOY)
    return is_asked and request.facts.proxy is not Backend.ENVOY and not published


def enforced(request: KeyRequest, gateway: InferenceGateway | None) -> Condition:
    """State whether the gateway asks for keys, and has this one."""
    type_ = ModelKeyCondition.AUTHENTICATED
    if gateway is None:
        message = f'there is no InferenceGateway "{DEFAULT_NAME}", so a gateway that runs keeps its settings'
        return false(type_, KeyReason.GATEWAY_NOT_READY, message)
    if gateway.spec.authentication is not Authentication.API_KEY:
        message = "the gateway asks for no key: requests without one are served too"
        return false(type_, KeyReason.GATEWAY_OPEN, message)
    said = next((condition for condition in gateway.status.conditions if condition.type == _TYPE), None)
    if said is None or said.status != "True":
        cause = (said.message if said else "") or "the gateway does not ask for keys yet"
        return false(type_, KeyReason.GATEWAY_NOT_READY, f'InferenceGateway "{DEFAULT_NAME}": {cause}')
    if request.facts.problem is None:
        return _not_known(request)
    if request.facts.problem:
        return false(type_, KeyReason.NOT_IN_FORCE, request.facts.problem)
    return true(type_, KeyReason.IN_FORCE, "the gateway asks for a key, and this one is valid")


def _not_known(request: KeyRequest) -> Condition:
    """Return the condition of a key that the gateway may not have."""
    type_ = ModelKeyCondition.AUTHENTICATED
    if request.facts.is_reported:
        return false(type_, KeyReason.CONFIGURING, "the gateway does not have the key, or its last edit, yet")
    message = "the gateway asks for keys; whether it has this one is not reported under Crossplane"
    return false(type_, KeyReason.NOT_REPORTED, message)
