"""Conditions of the InferenceGateway about its settings: keys, TLS, aliases, and what its backend ignores.

Aliases: only the gateway module routes by the model of a request, and only a key tells the namespace of a
client.

TLS: only Envoy takes certificates from Secrets. A gateway in front of it has a configuration of its own, and
reaches Envoy by plain HTTP.

Envoy honors every other setting. A gateway that routes by the Gateway API knows paths, weights and addresses.
Priorities, and what an endpoint needs of Envoy's module, have conditions elsewhere.
"""

from modelplane.api.conditions.reasons import (
    InferenceGatewayCondition as Type,
    InferenceGatewayReason as Reason,
)
from modelplane.api.inference_gateway import EVERY_NAMESPACE, Authentication, Backend
from modelplane.api.listing import listing
from modelplane.compose.conditions import Condition, false, state_unless_new, true
from modelplane.compose.facts import GatewayRequest


def alias_conditions(request: GatewayRequest) -> tuple[Condition, ...]:
    """Return the condition of an Envoy with aliases; nothing for any other gateway."""
    spec = request.owner.spec
    if not spec.aliases or request.facts.proxy is not Backend.ENVOY:
        return ()
    if request.facts.without_module:
        message = f"spec.aliases is ignored: {request.facts.without_module}"
        return (false(Type.SETTINGS_SUPPORTED, Reason.ALIASES_WITHOUT_MODULE, message),)
    if spec.authentication is not Authentication.API_KEY:
        unused = {f'"{alias.name}"' for alias in spec.aliases if EVERY_NAMESPACE not in alias.namespaces}
        if unused:
            message = (
                f"aliases {listing(unused)} are ignored, because the gateway doesn't require a key and the "
                f"aliases' namespaces don't include \"{EVERY_NAMESPACE}\": add it, or set "
                "spec.authentication to APIKey"
            )
            return (false(Type.SETTINGS_SUPPORTED, Reason.ALIASES_OPEN, message),)
    return (true(Type.SETTINGS_SUPPORTED, Reason.SUPPORTED, "clients can use spec.aliases"),)


def authenticated(request: GatewayRequest) -> Condition:
    """State whether a request to the gateway needs a key."""
    asked = request.owner.spec.authentication
    if asked is not Authentication.API_KEY:
        value = "is None" if asked else "is absent"
        message = (
            f"the gateway accepts every request, because spec.authentication {value}: set "
            "spec.authentication to APIKey, and create keys with `modelplane key create`"
        )
        return false(Type.AUTHENTICATED, Reason.OPEN, message)
    if would_open(request):
        message = "the backend does not read ModelKeys, so no service is published"
        return false(Type.AUTHENTICATED, Reason.NOT_ENFORCED, message)
    if request.facts.proxy is not Backend.ENVOY:
        message = (
            f"spec.authentication APIKey has no effect: backend {request.owner.spec.backend} does not read "
            "ModelKeys, so the gateway accepts every request: use backend Envoy, or restrict access to the "
            "Gateway by other means"
        )
        return false(Type.AUTHENTICATED, Reason.NOT_ENFORCED, message)
    if request.facts.without_module:
        message = f"the gateway rejects every request: {request.facts.without_module}"
        return false(Type.AUTHENTICATED, Reason.MODULE_MISSING, message)
    if not request.facts.asks_for_keys:
        return false(Type.AUTHENTICATED, Reason.CONFIGURING, "the gateway does not require keys yet")
    return true(Type.AUTHENTICATED, Reason.API_KEY, "requests require a ModelKey")


def would_open(request: GatewayRequest) -> bool:
    """Return True if a backend without keys would publish services that are to have them.

    A backend that has published them keeps serving, and a condition says that it asks for no key.
    """
    is_asked = request.owner.spec.authentication is Authentication.API_KEY
    published = request.owner.status.backend not in (None, Backend.ENVOY)
    return is_asked and request.facts.proxy is not Backend.ENVOY and not published


def tls_conditions(request: GatewayRequest) -> tuple[Condition, ...]:
    """Return the condition of a gateway with TLS; nothing for one without."""
    spec = request.owner.spec
    if spec.tls is None:
        return ()
    if spec.backend is not Backend.ENVOY:
        message = (
            f"spec.tls is ignored, because with backend {spec.backend} another gateway accepts client "
            "requests: configure TLS there, or use backend Envoy"
        )
        return (false(Type.SECURED, Reason.TLS_UNSUPPORTED, message),)
    if request.facts.tls_problem:
        return (false(Type.SECURED, Reason.INVALID_CERTIFICATE_REF, request.facts.tls_problem),)
    if not (request.facts.address or request.facts.problem):
        return (false(Type.SECURED, Reason.TLS_INSTALLING, "the gateway accepts no requests yet"),)
    if request.facts.has_tls is False:
        return (false(Type.SECURED, Reason.TLS_INSTALLING, "the gateway does not serve TLS yet"),)
    return (true(Type.SECURED, Reason.TLS_ONLY, f"clients must use TLS {spec.tls.minimum_version} or later"),)


def of_gateway(request: GatewayRequest) -> tuple[Condition, ...]:
    """Return the condition of an InferenceGateway with settings that its backend ignores."""
    spec = request.owner.spec
    if request.facts.proxy is Backend.ENVOY and not request.facts.pods:
        return ()  # of the controllers, where another backend is a gateway in front of Envoy
    ignored = [
        name
        for name, is_set, backend in (
            ("spec.traefik", spec.traefik, Backend.TRAEFIK),
            ("spec.envoyGateway", spec.envoy_gateway, Backend.ENVOY_GATEWAY),
            ("spec.keyGrants", spec.key_grants, Backend.ENVOY),
            ("spec.aliases", spec.aliases, Backend.ENVOY),
            ("spec.pricing", spec.pricing, Backend.ENVOY),
            ("spec.rateLimitService", spec.rate_limit_service, Backend.ENVOY),
            ("spec.numTrustedHops", spec.num_trusted_hops, Backend.ENVOY),
        )
        if is_set and backend is not spec.backend
    ]
    condition = true(Type.SETTINGS_SUPPORTED, Reason.SUPPORTED, "the backend supports every setting")
    if ignored:
        remedy = "remove them, or use a backend that supports them"
        message = f"backend {spec.backend} ignores {listing(ignored)}: {remedy}"
        condition = false(Type.SETTINGS_SUPPORTED, Reason.UNSUPPORTED_BACKEND, message)
    return state_unless_new(condition, request.owner.status)
