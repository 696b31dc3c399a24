"""Routes and clusters of held requests: those that wait for the first backend of their route.

A request keeps the routes of the moment at which it arrived. So a route without backends that holds requests
already names the cluster in which they end. Envoy has this cluster as soon as the route has a backend, whose
copy it is, and the gateway's module lets the requests go on when it is there. See
``docs/decisions/0037-hold.md``.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from modelplane.gateway.envoy import rewrite
from modelplane.gateway.route_table import Backend, Listener, Route

_STATE = "modelplane.held"
"""Filter state that the module sets on a request that it holds."""


def name_cluster(listener: Listener, route: Route) -> str:
    """Return the name of the cluster of a route's held requests; no backend has such a name."""
    return f"{listener.name}/held/{route.name}"


def choose_backend(route: Route) -> Backend:
    """Return the backend that gets the held requests of a route: the one with the largest share."""
    return min(route.backends, key=lambda backend: (backend.priority, -backend.weight, backend.name))


def list_clusters(listener: Listener) -> Iterator[tuple[str, Backend]]:
    """Yield the backends of held requests, by the name of their cluster."""
    for route in listener.routes:
        if route.settings.hold is not None and route.backends:
            yield name_cluster(listener, route), choose_backend(route)


def is_possible(listener: Listener, route: Route) -> bool:
    """Return True if requests of a route may have to wait."""
    return listener.front is not None and route.settings.hold is not None and not route.backends


def build_stand_in(route: Route) -> Route:
    """Return a route to the cluster of held requests, from which the rest of an Envoy route is made."""
    return replace(route, backends=(Backend(f"held/{route.name}", hosts=(("", 0),)),))


def mark(refusal: dict[str, Any]) -> dict[str, Any]:
    """Return an Envoy route that refuses requests, but for those that the module holds."""
    return {**refusal, "metadata": {"filter_metadata": {rewrite.KEY: {"hold": "1"}}}}


def match_held(matched: dict[str, Any]) -> dict[str, Any]:
    """Return the match of an Envoy route for held requests alone."""
    return {**matched, "filter_state": [{"key": _STATE, "string_match": {"exact": "1"}}]}
