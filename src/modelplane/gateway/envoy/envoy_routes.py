"""The routes of a listener: an Envoy ``RouteConfiguration``.

Each listener has a file of its own for them, so that a change of routes does not change the listener.

Of a route with one backend, Envoy itself rewrites the requests: no attempt differs from another. Such a route
has no filter of attempts, which costs a twentieth of a bare Envoy's processor time. The gateway module takes
the rest of its work from the route's metadata, if the listener says so. In a listener for the module of
release 0.9, or without the module, the filter of attempts has another name. It is there for such a route too,
and gives each attempt the form that Envoy has given it already.

A held request waits for the first backend of its route, and keeps the routes of the moment at which it
arrived. So a route without backends that holds requests already names the cluster in which they end. Envoy
has this cluster as soon as the route has a backend, whose copy it is, and the gateway's module lets the
requests go on when it is there. See ``docs/decisions/0037-hold.md``.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

from modelplane.api.schema.untyped import get_list
from modelplane.gateway import balancing
from modelplane.gateway.envoy import (
    endpoint_pickers,
    module_filters,
    priority_groups,
    replies,
    retries,
    rewrite,
    token_filters,
    upstream_addresses,
)
from modelplane.gateway.envoy.clusters import name_cluster
from modelplane.gateway.envoy.envoy_names import HELD, ROUTES
from modelplane.gateway.envoy.priority_groups import Shares, plan_attempts
from modelplane.gateway.route_table import Backend, Listener, Route

_HELD = "modelplane.held"
"""Filter state that the module sets on a request that it holds."""

_DISABLED = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": True}
_BOUND = "modelplane.regions"
"""Filter state of the module with the regions of a request, each between commas."""

_BY_MODEL = "/v1/"
"""Prefix of the paths that the module routes by the model in the body."""

_AMBIGUOUS = r".*(\\|%5[cC]|%2[eEfF]|/\.\.?(/|;|%3[bB]|$)).*"
"""Paths that servers read differently: a backslash is a slash to some, and some ignore the part of a segment
after a semicolon. A proxy in front of the gateway may decide by the path who may send a request, so such a
request could reach another service than the one that was allowed."""

_GUARDS = ("-keys", "-tls")

_NO_TIMEOUT = "0s"
"""Envoy ends no request for its duration: a stream of tokens lasts as long as the client reads it."""


def name_routes_file(name: str) -> str:
    """Return the file of the routes with a name."""
    return f"{ROUTES}{name}.json"


def name_routes(listener: Listener) -> str:
    """Return the name of a listener's routes, which tells what a request needs.

    Connections that a former listener accepted keep its routes: so those of a listener that needs less are
    others, and empty (``list_former_names``).
    """
    return "".join((listener.name, *_guards(listener)))


def list_former_names(listener: Listener) -> tuple[str, ...]:
    """Return the names that the routes of a listener had while it needed less."""
    guards = _guards(listener)
    fewer = (some for number in range(len(guards)) for some in combinations(guards, number))
    return tuple("".join((listener.name, *some)) for some in fewer)


def list_possible_files(listener: str) -> Iterator[str]:
    """Yield the files of the routes of a listener with a name, whatever a request needs."""
    for number in range(len(_GUARDS) + 1):
        for some in combinations(_GUARDS, number):
            yield name_routes_file("".join((listener, *some)))


def count_endpoints(contents: Iterable[str]) -> dict[str, int]:
    """Return the number of backends of each service's route, by NAMESPACE/NAME, in files that were written.

    A file that is missing or damaged has none.
    """
    counts: dict[str, int] = {}
    for route in chain.from_iterable(map(_written, contents)):
        if route["name"].count("/") == 1:
            counts[route["name"]] = max(counts.get(route["name"], 0), len({*list_clusters(route)}))
    return counts


def _written(content: str) -> list[dict[str, Any]]:
    try:
        return [
            route
            for configuration in json.loads(content or "{}").get("resources", ())
            for host in configuration["virtual_hosts"]
            for route in host["routes"]
        ]
    except (AttributeError, KeyError, TypeError, ValueError):
        return []


def _guards(listener: Listener) -> list[str]:
    applies = (module_filters.is_required(listener), listener.tls is not None)
    return [guard for guard, is_set in zip(_GUARDS, applies, strict=True) if is_set]


def route_configuration(listener: Listener) -> dict[str, Any]:
    """Return the ``RouteConfiguration`` of a listener."""
    # Envoy takes the first route that matches: the most specific one comes first.
    routes = sorted(listener.routes, key=lambda route: -len(route.prefix))
    return {
        "name": name_routes(listener),
        "virtual_hosts": [
            {
                "name": "all",
                "domains": ["*"],
                "routes": [
                    *_before_the_model_is_known(listener),
                    {
                        "name": "ambiguous-path",
                        "match": {"safe_regex": {"regex": _AMBIGUOUS}},
                        **replies.build_ambiguous_path(),
                    },
                    rewrite.refuse_loops(by_module=module_filters.is_required(listener)),
                    *(rendered for route in routes for rendered in _routes(listener, route)),
                    _not_found("/"),
                ],
            }
        ],
    }


def _not_found(prefix: str) -> dict[str, Any]:
    return {"name": "not-found", "match": {"prefix": prefix}, **replies.build_not_found()}


def _before_the_model_is_known(listener: Listener) -> Iterator[dict[str, Any]]:
    """Yield the first route of a request that the module routes by its model, where it needs one of its own.

    The module replaces its path, and Envoy chooses again. Without this route, its first choice would take as
    long as Envoy needs to look at all. The service that a model names may be in a namespace of this name.
    """
    has_models = listener.front is not None and listener.front.models is not None
    is_namespace = any(route.prefix.startswith(_BY_MODEL) for route in listener.routes)
    if has_models and module_filters.is_required(listener) and not is_namespace:
        yield _not_found(_BY_MODEL)


def build_without_routes(listener: Listener, name: str) -> dict[str, Any]:
    """Return the ``RouteConfiguration`` for connections of a former listener, which lead nowhere."""
    return {**route_configuration(replace(listener, routes=())), "name": name}


def _routes(listener: Listener, route: Route) -> Iterator[dict[str, Any]]:
    """Yield the Envoy routes of a route: before its own, that of the requests that it holds."""
    if listener.front is not None and route.settings.hold is not None and not route.backends:
        # To the cluster of held requests, for those that the module holds; it refuses all others.
        stand_in = Backend(f"{HELD}{route.name}", hosts=(("", 0),))
        held = _route(listener, replace(route, backends=(stand_in,)))
        state = {"key": _HELD, "string_match": {"exact": "1"}}
        yield {**held, "match": {**held["match"], "filter_state": [state]}}
        yield {**_route(listener, route), "metadata": {"filter_metadata": {rewrite.KEY: {"hold": "1"}}}}
        return
    ordinary = _route(listener, route)
    if balancing.must_have_bound_route(listener, route):
        state = {"key": _BOUND, "string_match": {"prefix": ","}}
        yield {
            **_route(listener, balancing.build_bound_route(route)),
            "match": {**ordinary["match"], "filter_state": [state]},
        }
    if is_direct(listener, route):
        yield from build_direct_routes(route, ordinary)
    else:
        yield ordinary


def _route(listener: Listener, route: Route) -> dict[str, Any]:
    path = route.prefix.rstrip("/")
    matched: dict[str, Any] = {
        "name": route.name,
        "match": ({"path_separated_prefix": path} if path else {"prefix": "/"})
        | token_filters.require_token(route),
    }
    if not route.backends:
        return {**matched, **replies.build_unavailable(route.unavailable)}
    matched |= token_filters.remove_token(listener)
    matched["metadata"] = rewrite.build_route_metadata(route)
    matched["metadata"]["filter_metadata"] |= upstream_addresses.build_route_metadata(route)
    matched["request_body_buffer_limit"] = 1 << 20
    if groups := plan_attempts(route.backends, is_ordered=route.settings.balancing is not None):
        return _with_tiers(matched, listener, route, groups)
    action = {
        **_clusters(listener, route),
        "timeout": _NO_TIMEOUT,
        "retry_policy": retries.build_policy(listener, route),
    }
    picker = route.backends[0].picker
    asked = endpoint_pickers.build_route_part(listener.name, picker) if picker else {}
    return {**matched, **asked, "route": action}


def _clusters(listener: Listener, route: Route) -> dict[str, Any]:
    """Return the part of a route's action that names its backends, with weights if there are several."""
    names = {backend.name: name_cluster(listener, backend) for backend in route.backends}
    if len(names) == 1:
        return {"cluster": next(iter(names.values()))}
    weighted = [
        {"name": names[backend.name], "weight": backend.weight}
        for backend in sorted(route.backends, key=lambda backend: backend.name)
    ]
    return {"weighted_clusters": {"clusters": weighted}}


def _with_tiers(
    matched: dict[str, Any], listener: Listener, route: Route, groups: Sequence[Shares]
) -> dict[str, Any]:
    """Return the route that asks tier after tier, at most once each backend."""
    matched["metadata"]["filter_metadata"] |= priority_groups.build_names(listener, route.backends)
    # Each attempt is at another backend, which need not recover first.
    policy = {
        **retries.build_policy(listener, route, len(groups)),
        "retriable_status_codes": [429, 503],
        "retry_back_off": {"base_interval": "0.001s", "max_interval": "0.01s"},
    }
    specifier = priority_groups.build_specifier(listener, groups)
    if route.settings.balancing is not None:
        specifier = priority_groups.build_ordered(specifier, listener, route.backends)
    action = {**specifier, "timeout": _NO_TIMEOUT, "retry_policy": policy}
    return {**matched, **priority_groups.answer(), "route": action}


def list_clusters(route: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the clusters that an Envoy route names."""
    action = route.get("route", {})
    if "cluster" in action:
        yield action["cluster"]
    for cluster in get_list(action, "weighted_clusters", "clusters"):
        yield cluster["name"]
    yield from priority_groups.list_clusters(action)
    yield from endpoint_pickers.list_clusters(route)


def list_held_clusters(listener: Listener) -> Iterator[tuple[str, Backend]]:
    """Yield the backends of held requests, those with the largest share, by the name of their cluster.

    No backend has such a name.
    """
    for route in listener.routes:
        if route.settings.hold is not None and route.backends:
            backend = min(route.backends, key=lambda one: (one.priority, -one.weight, one.name))
            yield f"{listener.name}/{HELD}{route.name}", backend


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
    # The backend for the module, as lines of one text, because Envoy searches for each key.
    described = "\n".join((backend.name, backend.region, backend.served))
    metadata[rewrite.KEY] = {**metadata[rewrite.KEY], "direct": described}
    # The filters of attempts that the backend does not need.
    filters = [module_filters.ATTEMPTS]
    if backend.tokens is None:
        filters.append(token_filters.HEADERS_OF_ATTEMPTS)
    shared = {
        **rendered,
        "typed_per_filter_config": dict.fromkeys(filters, _DISABLED),
        "metadata": {"filter_metadata": metadata},
    }
    if not backend.prefix:
        yield {**shared, "route": action}
        return
    for path in _forms(route, backend):
        yield {**shared, "match": path, "route": {**action, "prefix_rewrite": backend.prefix}}


def _forms(route: Route, backend: Backend) -> Iterator[dict[str, str]]:
    """Yield the matches of the paths of a route: each is what the backend's prefix takes the place of."""
    overlap = [f"{route.prefix}{backend.overlap}"] if backend.overlap else []
    for path in (*overlap, route.prefix.rstrip("/")):
        yield {"prefix": f"{path}/"}
        if path:
            yield {"path": path}
