"""The InferenceGateway's aliases: the condition that says whether clients can use them.

Only the gateway module routes by the model of a request, and only a key tells the namespace of a client.
"""

from modelplane.api.conditions.reasons import InferenceGatewayCondition, InferenceGatewayReason
from modelplane.api.inference_gateway import EVERY_NAMESPACE, Authentication, Backend
from modelplane.api.listing import listing
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.gateway.gateway_facts import GatewayRequest

_TYPE = InferenceGatewayCondition.SETTINGS_SUPPORTED


def conditions(request: GatewayRequest) -> tuple[Condition, ...]:
    """Return the condition of an Envoy with aliases; nothing for any other gateway."""
    spec = request.owner.spec
    if not spec.aliases or request.facts.proxy is not Backend.ENVOY:
        return ()
    if request.facts.without_module:
        message = f"spec.aliases is ignored: {request.facts.without_module}"
        return (false(_TYPE, InferenceGatewayReason.ALIASES_WITHOUT_MODULE, message),)
    if spec.authentication is not Authentication.API_KEY:
        unused = {f'"{alias.name}"' for alias in spec.aliases if EVERY_NAMESPACE not in alias.namespaces}
        if unused:
            message = (
                f"aliases {listing(unused)} are ignored, because the gateway asks for no key and their "
                f'namespaces do not include "{EVERY_NAMESPACE}": add it, or set spec.authentication to APIKey'
            )
            return (false(_TYPE, InferenceGatewayReason.ALIASES_OPEN, message),)
    return (true(_TYPE, InferenceGatewayReason.SUPPORTED, "clients can use spec.aliases"),)
