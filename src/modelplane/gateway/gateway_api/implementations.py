"""Implementations of the Gateway API: what each does of the filters that a service's routes need.

The conformance tests of the Gateway API cover a path that is replaced for a whole rule, and a header that is
set for one backend, but no path that is replaced for one backend: some implementations refuse that, and
others ignore it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from modelplane.api.inference_gateway import Backend
from modelplane.api.schema.untyped import get_list


@dataclass(frozen=True, slots=True)
class Implementation:
    """An implementation of the Gateway API, for the rules of a service."""

    controller: str
    """Its controller's name in the status of routes."""
    rewrites_per_backend: bool
    """True if it replaces path and Host for one backend of several (``backendRefs[].filters``)."""
    sets_headers_per_backend: bool
    """True if it sets a header for one backend (HTTPRouteBackendRequestHeaderModification)."""
    has_timeouts: bool
    """True if it honors ``timeouts``; otherwise its own apply."""
    source: str
    """The documentation of this. The project has run none of them."""


TRAEFIK: Final = Implementation(
    "traefik.io/gateway-controller",
    rewrites_per_backend=True,
    sets_headers_per_backend=True,
    has_timeouts=False,
    source="Traefik 3.7.6, the features that its provider reports; without timeouts, it has none of its own",
)
ENVOY_GATEWAY: Final = Implementation(
    "gateway.envoyproxy.io/gatewayclass-controller",
    rewrites_per_backend=False,
    sets_headers_per_backend=True,
    has_timeouts=True,
    source='Envoy Gateway 1.8, its error "URLRewrite path modifier is not supported within BackendRef"',
)
OTHER: Final = Implementation(
    "",
    rewrites_per_backend=False,
    sets_headers_per_backend=True,
    has_timeouts=False,
    source="Gateway API 1.5, the extended features of HTTPRoute",
)
"""Any other: only what the conformance tests cover is relied on."""

IMPLEMENTATIONS: Final = (TRAEFIK, ENVOY_GATEWAY, OTHER)

_BY_BACKEND = {str(Backend.TRAEFIK): TRAEFIK, str(Backend.ENVOY_GATEWAY): ENVOY_GATEWAY}


def find_implementation(backend: str, routes: Iterable[Mapping[str, Any]]) -> Implementation:
    """Return the implementation of a backend; if unknown, that of the controller that reports on routes."""
    if named := _BY_BACKEND.get(backend):
        return named
    reporting = {
        parent.get("controllerName", "")
        for route in routes
        for parent in get_list(route, "status", "parents")
    }
    return next(
        (implementation for implementation in IMPLEMENTATIONS if implementation.controller in reporting),
        OTHER,
    )
