"""Routes with one backend, whose requests Envoy itself rewrites: no attempt differs from another.

They have no filter of attempts, which costs a twentieth of a bare Envoy's processor time. The gateway module
takes the rest of its work from the route's metadata, if the listener says so. In a listener for the module of
release 0.9, or without the module, the filter of attempts has another name. It is there for such a route too,
and gives each attempt the form that Envoy has given it already.
"""

from collections.abc import Iterator
from typing import Any

from modelplane.gateway.envoy import rewrite
from modelplane.gateway.envoy.filters import module_filters, token_filters
from modelplane.gateway.route_table import Backend, Listener, Route

_DISABLED = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": True}

_LINES = ("name", "region", "served")
"""The backend for the module, as lines of one text, because Envoy searches for each key."""


def is_direct(listener: Listener, route: Route) -> bool:
    """Return True if all attempts at a request of a route have one form, which Envoy itself can write.

    A backend of several instances is not: its 503 is tried again, and only a filter of attempts counts that.
    """
    if listener.front is None or len(route.backends) != 1 or route.settings.balancing is not None:
        return False
    [backend] = route.backends
    return len(backend.hosts) == 1 and not backend.needs_module and backend.picker is None


def build_direct_routes(route: Route, rendered: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the Envoy routes of such a route: one for each form of the path, the most specific one first."""
    [backend] = route.backends
    action = {**rendered["route"], **({"host_rewrite_literal": backend.host} if backend.host else {})}
    metadata = dict(rendered["metadata"]["filter_metadata"])
    metadata[rewrite.KEY] = {**metadata[rewrite.KEY], "direct": _describe(backend)}
    shared = {**rendered, **_without_filters(backend), "metadata": {"filter_metadata": metadata}}
    if not backend.prefix:
        yield {**shared, "route": action}
        return
    for path in _forms(route, backend):
        yield {**shared, "match": path, "route": {**action, "prefix_rewrite": backend.prefix}}


def _describe(backend: Backend) -> str:
    return "\n".join(getattr(backend, line) for line in _LINES)


def _without_filters(backend: Backend) -> dict[str, Any]:
    """Return the part of an Envoy route without the filters of attempts that its backend does not need."""
    of_others = [token_filters.HEADERS_OF_ATTEMPTS] if backend.tokens is None else []
    return {"typed_per_filter_config": dict.fromkeys([module_filters.ATTEMPTS, *of_others], _DISABLED)}


def _forms(route: Route, backend: Backend) -> Iterator[dict[str, str]]:
    """Yield the matches of the paths of a route: each is what the backend's prefix takes the place of."""
    overlap = [f"{route.prefix}{backend.overlap}"] if backend.overlap else []
    for path in (*overlap, route.prefix.rstrip("/")):
        yield {"prefix": f"{path}/"}
        if path:
            yield {"path": path}
