"""The InferenceGateway's TLS: the condition that says whether its clients are served over it.

Only Envoy takes certificates from Secrets. A gateway in front of it has a configuration of its own, and
reaches Envoy by plain HTTP.
"""

from modelplane.api.conditions.reasons import InferenceGatewayCondition as Type
from modelplane.api.conditions.reasons import InferenceGatewayReason as Reason
from modelplane.api.inference_gateway import Backend
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.gateway.gateway_facts import GatewayRequest


def conditions(request: GatewayRequest) -> tuple[Condition, ...]:
    """Return the condition of a gateway with TLS; nothing for one without."""
    spec = request.owner.spec
    if spec.tls is None:
        return ()
    if spec.backend is not Backend.ENVOY:
        message = (
            f"spec.tls is ignored, because with backend {spec.backend} another gateway takes the requests of "
            "clients: configure TLS there, or use backend Envoy"
        )
        return (false(Type.SECURED, Reason.TLS_UNSUPPORTED, message),)
    if request.facts.tls_problem:
        return (false(Type.SECURED, Reason.INVALID_CERTIFICATE_REF, request.facts.tls_problem),)
    if not (request.facts.address or request.facts.problem):
        return (false(Type.SECURED, Reason.TLS_INSTALLING, "the gateway accepts no requests yet"),)
    if request.facts.has_tls is False:
        return (false(Type.SECURED, Reason.TLS_INSTALLING, "the gateway does not serve TLS yet"),)
    return (true(Type.SECURED, Reason.TLS_ONLY, f"clients use TLS {spec.tls.minimum_version} or later"),)
