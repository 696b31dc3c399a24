"""Routes of the fleet's gateway, as ``modelplane render`` shows them."""

from collections.abc import Iterator

import msgspec

from modelplane.api.schema.decode import convert
from modelplane.gateway.hosts import format_authority
from modelplane.gateway.route_table import Route
from modelplane.offline.files.redaction import redact
from modelplane.offline.files.report_documents import Output


class RoutedBackend(Output, frozen=True, kw_only=True):
    """An endpoint that gets requests of a route."""

    endpoint: str
    """Namespace and name of the ModelEndpoint."""
    host: str
    port: int
    weight: int
    """Its share of the route's requests, relative to the other backends."""
    prefix: str
    """Path prefix that replaces the route's; empty if the path stays as the client sent it."""
    overlap: str
    """Last segment of ``prefix`` that a request's path does not get twice; empty if there is none."""
    tls: bool
    host_header: str
    priority: int = 0
    """Its tier, 0 the first: it gets requests that those before it refuse."""


class GatewayRoute(Output, frozen=True, kw_only=True):
    """A route of a gateway that Modelplane configures itself: Envoy."""

    prefix: str
    """Path prefix of the requests."""
    backends: tuple[RoutedBackend, ...]
    unavailable: str
    """Message of the 503 that clients get while there are no backends."""


def redact_route(route: Route, hidden: frozenset[str]) -> GatewayRoute:
    """Return a route without texts that contain a hidden value."""
    backends = tuple(
        RoutedBackend(
            endpoint=backend.name,
            host=host,
            port=port,
            weight=backend.weight,
            prefix=backend.prefix,
            overlap=backend.overlap,
            tls=backend.tls,
            host_header=backend.host,
            priority=backend.priority,
        )
        for backend in route.backends
        for host, port in backend.hosts
    )
    whole = GatewayRoute(prefix=route.prefix, backends=backends, unavailable=route.unavailable)
    return convert(redact(msgspec.to_builtins(whole), hidden), GatewayRoute)


def format_route(route: GatewayRoute) -> Iterator[str]:
    """Yield a route as text: its prefix, then a line for each backend."""
    count = len(route.backends)
    to = f"to {count} endpoint{'' if count == 1 else 's'}"
    yield f"{route.prefix} {to if count else f'answers 503: {route.unavailable}'}"
    for backend in route.backends:
        scheme, authority = "https" if backend.tls else "http", format_authority(backend.host, backend.port)
        url = f"{scheme}://{authority}{backend.prefix}"
        path = "" if backend.prefix else ", path unchanged"
        once = f", {backend.overlap} not repeated" if backend.overlap else ""
        host = f", Host {backend.host_header}" if backend.host_header else ""
        tier = f"priority {backend.priority}, " if backend.priority else ""
        yield f"  {backend.endpoint}: {tier}weight {backend.weight}, {url}{path}{once}{host}"
