"""Settings that the chosen gateway cannot express: a condition names each, and the remedy.

Envoy honors every setting. A gateway that routes by the Gateway API knows paths, weights and addresses.
Settings with a condition of their own are not listed here: authentication, TLS, priorities, and what an
endpoint needs of Envoy's module.
"""

from collections.abc import Iterable
from enum import StrEnum

from modelplane.api.conditions.reasons import (
    InferenceGatewayCondition,
    InferenceGatewayReason,
    ModelServiceCondition,
    ModelServiceReason,
)
from modelplane.api.inference_gateway import Backend
from modelplane.api.listing import listing
from modelplane.api.meta import Status
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.gateway.gateway_facts import GatewayRequest
from modelplane.compose.service.service_facts import ServiceRequest


def of_gateway(request: GatewayRequest) -> tuple[Condition, ...]:
    """Return the condition of an InferenceGateway with settings that its backend ignores."""
    gateway = request.owner
    spec, routes_by_envoy = gateway.spec, request.facts.proxy is Backend.ENVOY
    if routes_by_envoy and not request.facts.pods:
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
    message = _message(ignored, f"backend {spec.backend}", "remove them, or use the backend that has them")
    type_, reason = InferenceGatewayCondition.SETTINGS_SUPPORTED, InferenceGatewayReason.UNSUPPORTED_BACKEND
    supported = true(type_, InferenceGatewayReason.SUPPORTED, "the backend has every setting")
    return _stated(false(type_, reason, message) if ignored else supported, gateway.status)


def of_service(request: ServiceRequest) -> tuple[Condition, ...]:
    """Return the condition of a ModelService with settings that the fleet's gateway ignores."""
    service, backend = request.owner, fleet_gateway.proxy(request.found(fleet_gateway.KEY))
    settings = (("spec.aliases", service.spec.aliases),)
    is_ignored = fleet_gateway.reads_gateway_api(backend)
    ignored = [name for name, is_set in settings if is_set and is_ignored]
    message = _message(
        ignored,
        f"the gateway's backend {backend}",
        "remove them, or ask your platform team for the backend Envoy",
    )
    type_, reason = ModelServiceCondition.SETTINGS_SUPPORTED, ModelServiceReason.UNSUPPORTED_BACKEND
    supported = true(type_, ModelServiceReason.SUPPORTED, "the gateway has every setting")
    return _stated(false(type_, reason, message) if ignored else supported, service.status)


def _message(ignored: Iterable[str], backend: str, remedy: str) -> str:
    return f"{backend} ignores {listing(ignored)}: {remedy}"


def _stated(condition: Condition, status: Status) -> tuple[Condition, ...]:
    """Return a condition unless it is True and was never False: Crossplane keeps conditions that are gone."""
    known: Iterable[StrEnum | str] = (reported.type for reported in status.conditions)
    return () if condition.holds and condition.type not in known else (condition,)
