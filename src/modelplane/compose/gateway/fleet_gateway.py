"""The fleet's gateway: its backend, and the source of its configuration.

The gateway's controller configures Envoy from the ModelServices and ModelEndpoints themselves. Any other
backend reads Gateway API, so services and endpoints compose its objects.
"""

from dataclasses import replace
from typing import Any

from modelplane.api.inference_gateway import DEFAULT_NAME, Backend, InferenceGateway
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.untyped import get_list
from modelplane.compose.composition import Blocked, Request, Requirement, Unknown
from modelplane.gateway.destinations import Destinations, parse_networks

KEY = "gateway"

OWNERS = "endpoint-owners"
"""Key of the requirement for ModelReplicas, which only the controllers give."""

REQUIREMENT = Requirement(KEY, API_VERSION, kind_name(InferenceGateway), name=DEFAULT_NAME)


def proxy(found: tuple[Object, ...]) -> str:
    """Return the backend in the gateway's status; empty without a gateway, or until it is known."""
    return str(found[0].get("status", {}).get("backend", "")) if found else ""


def takes_tls(found: tuple[Object, ...]) -> bool:
    """Return True if clients of the gateway use https."""
    spec = found[0].get("spec", {}) if found else {}
    return (
        bool(spec.get("tls")) and spec.get("backend") == Backend.ENVOY and not reads_gateway_api(proxy(found))
    )


def replicas(namespace: str) -> Requirement:
    """Return the requirement of the ModelReplicas of a namespace, whose endpoints may lead to clusters.

    An endpoint comes after its replica, so only its own changes matter.
    """
    kind = kind_name(ModelReplica)
    return Requirement(OWNERS, API_VERSION, kind, namespace, triggers=False, optional=True)


def destinations(request: Request[Any, Any], *, is_local: bool) -> Destinations | Blocked:
    """Return where the gateway of a request may send requests."""
    found = destinations_of(request.found(KEY), is_local=is_local)
    owners = request.required.get(OWNERS)
    if isinstance(found, Blocked) or owners is None or isinstance(owners, Unknown):
        return found
    return replace(found, replicas=frozenset(owner["metadata"].get("uid", "") for owner in owners))


def destinations_of(found: tuple[Object, ...], *, is_local: bool) -> Destinations | Blocked:
    """Return where a gateway may send requests, by its own settings."""
    spec, status = (found[0].get(part, {}) for part in ("spec", "status")) if found else ({}, {})
    read = {}
    for field in ("allowedDestinations", "deniedDestinations"):
        try:
            read[field] = parse_networks(spec.get(field) or ())
        except ValueError as error:
            return Blocked(f'InferenceGateway "{DEFAULT_NAME}": spec.{field}: {error}: correct it')
    return Destinations(
        allowed=read["allowedDestinations"],
        denied=read["deniedDestinations"],
        gateway=str(status.get("address", "")),
        has_tls=takes_tls(found),
        is_local=is_local,
        refuses_internal=not is_local,
        clusters=tuple(get_list(status, "clusterGateways")),
    )


def unspoken(found: tuple[Object, ...]) -> str | None:
    """Return a message while a gateway has no backend in its status yet; None otherwise."""
    if not found or proxy(found):
        return None
    return f'InferenceGateway "{DEFAULT_NAME}" has no status.backend yet'


def reads_gateway_api(proxy_name: str) -> bool:
    """Return True if a backend reads its routes from Gateway API objects."""
    return proxy_name not in ("", Backend.ENVOY)
