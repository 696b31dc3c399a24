"""The routes of a listener: an Envoy ``RouteConfiguration``.

Each listener has a file of its own for them, so that a change of routes does not change the listener.
"""

from typing import Any

from modelplane.gateway.envoy import loops, paths, replies, rewrite
from modelplane.gateway.envoy.clusters import cluster_name
from modelplane.gateway.envoy.type_urls import ENVOY
from modelplane.gateway.table import Listener, Route

ROUTES = "routes/"
"""Folder with one file of routes for each listener."""

_RETRIES = 2
_RETRIED_BYTES = 1 << 20


def routes_file(listener: str) -> str:
    """Return the file of a listener's routes."""
    return f"{ROUTES}{listener}.json"


def route_configuration(listener: Listener) -> dict[str, Any]:
    """Return the ``RouteConfiguration`` of a listener."""
    # Envoy takes the first route that matches: the most specific one comes first.
    routes = sorted(listener.routes, key=lambda route: -len(route.prefix))
    return {
        "name": listener.name,
        "virtual_hosts": [
            {
                "name": "all",
                "domains": ["*"],
                "routes": [
                    paths.refusal(),
                    loops.refusal(),
                    *(_route(listener, route) for route in routes),
                    {"name": "not-found", "match": {"prefix": "/"}, **replies.not_found()},
                ],
            }
        ],
    }


def _route(listener: Listener, route: Route) -> dict[str, Any]:
    path = route.prefix.rstrip("/")
    matched = {"name": route.name, "match": {"path_separated_prefix": path} if path else {"prefix": "/"}}
    if not route.backends:
        return {**matched, **replies.unavailable(route.unavailable)}
    return {
        **matched,
        "metadata": rewrite.of_route(route),
        "request_body_buffer_limit": _RETRIED_BYTES,
        "route": {
            "weighted_clusters": {
                "clusters": [
                    {"name": cluster_name(listener, backend), "weight": backend.weight}
                    for backend in sorted(route.backends, key=lambda backend: backend.name)
                ]
            },
            "timeout": "0s",
            "retry_policy": _retry_policy(route),
        },
    }


def _retry_policy(route: Route) -> dict[str, Any]:
    """Return the retries: before the first byte of an answer, and on a 503 if there is another backend."""
    conditions = ["connect-failure", "refused-stream", "reset"]
    elsewhere = len(route.backends) > 1 or len(route.backends[0].hosts) > 1
    return {
        # The next gateway answers 503 for a replica that is gone.
        "retry_on": ",".join([*conditions, "retriable-status-codes"] if elsewhere else conditions),
        "retriable_status_codes": [503] if elsewhere else [],
        "num_retries": _RETRIES,
        "refresh_cluster_on_retry": len(route.backends) > 1,
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {
                    "@type": f"{ENVOY}extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
                },
            }
        ],
        "host_selection_retry_max_attempts": 5,
    }
