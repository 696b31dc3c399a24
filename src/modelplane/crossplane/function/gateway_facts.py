"""Facts about the fleet's gateway for the function.

The status of the InferenceGateway names the backend that routes requests, and Crossplane observes the pods of
Envoy as children of the InferenceGateway. One rule: nothing is said of the gateway's configuration but what
the process that publishes it has reported.
"""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from modelplane.api.conditions.reasons import ModelServiceCondition, ModelServiceReason
from modelplane.api.inference_gateway import DEFAULT_NAME, Backend, InferenceGateway
from modelplane.api.listing import listing
from modelplane.api.meta import API_VERSION, SYSTEM_NAMESPACE, Object, kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.compose.composition import NoFacts, Request, Requirement, Unknown
from modelplane.compose.facts import GatewayFacts
from modelplane.compose.gateway import envoy_pods, fleet_gateway
from modelplane.compose.gateway.inference_gateway import CLUSTERS
from modelplane.compose.readiness import condition_of, is_true
from modelplane.gateway import configuration_state, tokens
from modelplane.gateway.configuration_state import GatewayState
from modelplane.gateway.credentials import must_have_module
from modelplane.gateway.tokens import GatewayKeys

STATE: Final = "gateway-state"
"""Key of the requirement for the state of the gateway's configuration."""

SERVICES: Final = "routed-services"
"""Key of the requirement for the services that may still be reached through the pods of Envoy."""

_STATE = Requirement(STATE, "v1", "ConfigMap", namespace=SYSTEM_NAMESPACE, name=configuration_state.NAME)
_SERVICES = Requirement(SERVICES, API_VERSION, kind_name(ModelService))

_ON_THE_WAY = frozenset({ModelServiceReason.CONFIGURING, ModelServiceReason.WAITING_FOR_GATEWAY})
"""Reasons of a service that a gateway does not route to yet."""

_KEY_BYTES = 32
_UNREPORTED = timedelta(hours=1)

_NOT_REPORTED = "the state of the gateway's configuration is not reported yet"


def requirements(owner: Any, composed: Mapping[str, Object]) -> tuple[Requirement, ...]:
    """Return the requirements of an owner about the gateway's pods."""
    if isinstance(owner, InferenceGateway):
        if owner.spec.backend is Backend.ENVOY:
            return (_STATE,)
        return (_SERVICES,) if any(key.startswith(envoy_pods.PREFIX) for key in composed) else ()
    return (_STATE,) if isinstance(owner, ModelEndpoint) and must_have_module(owner) else ()


def build_facts(
    request: Request[InferenceGateway, NoFacts],
    found: Mapping[str, tuple[Object, ...] | Unknown],
    address: str,
    pods: Mapping[str, Object],
) -> GatewayFacts:
    """Return the facts of an InferenceGateway.

    ``found`` has the objects of ``requirements`` and the keys of the gateway; ``address`` is that of the
    Gateway of the Gateway API, ``pods`` are the manifests of the pods of Envoy.
    """
    owner, known = request.owner, _reported(found.get(STATE, ()))
    is_used = owner.metadata.name == DEFAULT_NAME
    keys = _advance_or_generate_keys(request, found.get(fleet_gateway.KEYS_KEY), known) if is_used else None
    if owner.spec.backend is not Backend.ENVOY:
        needed = _unmoved(request, found.get(SERVICES, ()), address)
        return GatewayFacts(address, Backend.GATEWAY_API, keys=keys, envoy_is_needed_by=needed)
    # Without an address: that of the Gateway is another backend's.
    facts = GatewayFacts(pods=pods if is_used else {}, keys=keys, has_tls=known.has_tls if known else False)
    if known is None:
        # What has reported once goes on serving.
        return replace(facts, problem="" if owner.status.backend is Backend.ENVOY else _NOT_REPORTED)
    return replace(
        facts,
        problem=known.problem,
        tls_problem=known.tls_problem,
        without_module=known.without_module,
        asks_for_keys=known.asks_for_keys,
    )


def backend_of(request: Request[Any, NoFacts]) -> Backend:
    """Return the backend that routes requests, by the gateway that an owner requires."""
    is_envoy = fleet_gateway.proxy(request.found(fleet_gateway.KEY)) == Backend.ENVOY
    return Backend.ENVOY if is_envoy else Backend.GATEWAY_API


def explain_without_module(found: Mapping[str, tuple[Object, ...] | Unknown]) -> str:
    """Return why the gateway's Envoy runs without its module; empty if it has it, or nobody asks."""
    known = _reported(found.get(STATE, ()))
    if known is None:
        return _NOT_REPORTED if STATE in found else ""
    return known.without_module


def _advance_or_generate_keys(
    request: Request[InferenceGateway, NoFacts],
    found: tuple[Object, ...] | Unknown | None,
    known: GatewayState | None,
) -> GatewayKeys | None:
    """Return the keys of the gateway, a new one if there are none; None while they are not known.

    Another gateway than Envoy reports nothing: by then, each service has been composed several times.
    """
    if found is None or isinstance(found, Unknown):
        return None
    if not found:
        is_new = not request.found(CLUSTERS.key) and not request.unknown(CLUSTERS.key)
        return GatewayKeys({1: secrets.token_bytes(_KEY_BYTES)}, 1 if is_new else 0)
    keys = tokens.read(found[0])
    if not keys.keys or request.now is None:
        return None
    if request.owner.spec.backend is Backend.ENVOY:
        reported = known.keys_sent if known else {}
        sent = {int(number): since for number, since in reported.items() if number.isdecimal()}
        return tokens.advance_keys(keys, sent, request.now)
    changed = _changed(request.observed.get(fleet_gateway.KEYS_KEY, {}))
    since = {number: changed for number in keys.keys if changed is not None}
    return tokens.advance_keys(keys, since, request.now, _UNREPORTED)


def _changed(secret: Object) -> datetime | None:
    """Return the time of the last change of an observed Secret; None if it is not known."""
    times = [field.get("time", "") for field in secret.get("metadata", {}).get("managedFields") or ()]
    try:
        return datetime.fromisoformat(max(times, default=""))
    except ValueError:
        return None


def _reported(found: tuple[Object, ...] | Unknown) -> GatewayState | None:
    return None if isinstance(found, Unknown) or not found else configuration_state.read(found[0])


def _unmoved(
    request: Request[InferenceGateway, NoFacts], found: tuple[Object, ...] | Unknown, address: str
) -> str:
    """Return the services that are still reached through the pods of Envoy only; empty if none is."""
    if not any(key.startswith(envoy_pods.PREFIX) for key in request.observed):
        return ""
    if isinstance(found, Unknown):
        return f"services that cannot be read: {found.cause}"
    waiting = [item for item in found if _is_unmoved(item, address)]
    named = (f'"{item["metadata"]["namespace"]}/{item["metadata"]["name"]}"' for item in waiting)
    return f"ModelService {listing(named)}" if waiting else ""


def _is_unmoved(service: Object, address: str) -> bool:
    """Return True if a service that has endpoints is not routed by the gateway at an address yet."""
    published = str(service.get("status", {}).get("address", ""))
    if not published:
        return False
    if not address or f"//{address}/" not in published:
        return True
    routing = condition_of(service, ModelServiceCondition.ROUTING_READY)
    is_waiting = routing.get("reason") in _ON_THE_WAY and routing.get("status") != "True"
    return is_waiting and is_true(service, ModelServiceCondition.ENDPOINTS_RESOLVED)
