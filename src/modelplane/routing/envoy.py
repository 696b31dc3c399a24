"""A table as the files that Envoy reads: listeners, routes, clusters, instances.

One rule: a change reaches as few files as it can. A listener does not mention
its routes, so it is written once, and the connections that it accepted stay. A
cluster does not mention its instances. All paths are relative to Envoy's
working directory. Configuration reference: envoy v1.40, ``api-v3``.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from modelplane.routing import clusters, replies, rewrite
from modelplane.routing.table import Backend, Listener, Route, Table

LISTENERS = "lds.json"
CLUSTERS = "cds.json"
ROUTES = "routes/"

_TYPES = "type.googleapis.com/envoy."
_CONFIG = f"{_TYPES}config."

# A prompt may be long and a model slow: only a stream on which nothing moves for an hour is given up.
_STREAM_IDLE = "3600s"
_HEADERS_TIMEOUT = "30s"
_RETRIES = 2


def files(table: Table) -> dict[str, str]:
    """Return the content of every file, by its path from Envoy's working directory.

    Raises ValueError where two backends of one listener share a name but are not the same.
    """
    backends = dict(sorted(_backends(table)))
    assignments = {
        clusters.assignment_file(name): _response(
            f"{_CONFIG}endpoint.v3.ClusterLoadAssignment", [clusters.assignment(name, backend)]
        )
        for name, backend in backends.items()
        if clusters.by_discovery(backend)
    }
    listeners = sorted(table.listeners, key=lambda listener: listener.name)
    routes = {
        routes_file(listener.name): _response(
            f"{_CONFIG}route.v3.RouteConfiguration", [_route_configuration(listener)]
        )
        for listener in listeners
    }
    return {
        **assignments,
        CLUSTERS: _response(
            f"{_CONFIG}cluster.v3.Cluster", [clusters.cluster(name, each) for name, each in backends.items()]
        ),
        **routes,
        LISTENERS: _response(f"{_CONFIG}listener.v3.Listener", [_listener(each) for each in listeners]),
    }


def routes_file(listener: str) -> str:
    """Return the file of a listener's routes."""
    return f"{ROUTES}{listener}.json"


def transition(new: Mapping[str, str], old: Mapping[str, str]) -> dict[str, str]:
    """Return the files to replace ``old`` by on the way to ``new``.

    A route may only name clusters that exist, and Envoy may read the clusters first: one that the old
    routes name stays, with its instances, until those routes are gone. Without such it is ``new``.
    """
    try:
        leaving = _leaving(new, old)
    except (KeyError, TypeError, ValueError):
        return dict(new)  # the old files are damaged: nothing runs on them
    clusters_ = json.loads(new[CLUSTERS])
    clusters_["resources"] += leaving
    instances = (clusters.assignment_file(each["name"]) for each in leaving)
    return {**{path: old[path] for path in instances if path in old}, **new, CLUSTERS: _dump(clusters_)}


def _leaving(new: Mapping[str, str], old: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the clusters of the old files that the old routes name and the new files lack."""
    staying = {each["name"] for each in json.loads(new[CLUSTERS])["resources"]}
    named = {
        cluster["name"]
        for path, content in old.items()
        if path.startswith(ROUTES)
        for configuration in json.loads(content)["resources"]
        for host in configuration["virtual_hosts"]
        for route in host["routes"]
        for cluster in route.get("route", {}).get("weighted_clusters", {}).get("clusters", ())
    }
    leaving = named - staying
    return (
        [each for each in json.loads(old[CLUSTERS])["resources"] if each["name"] in leaving]
        if leaving
        else []
    )


def _backends(table: Table) -> Iterator[tuple[str, Backend]]:
    """Yield each distinct backend by the name of its cluster."""
    seen: dict[str, Backend] = {}
    for listener in table.listeners:
        for backend in (each for route in listener.routes for each in route.backends):
            name = _cluster_name(listener, backend)
            unweighted = replace(backend, weight=1)
            if name not in seen:
                seen[name] = unweighted
                yield name, unweighted
            elif seen[name] != unweighted:
                raise ValueError(
                    f'two different backends of listener "{listener.name}" are named "{backend.name}"'
                )


def _cluster_name(listener: Listener, backend: Backend) -> str:
    return f"{listener.name}/{backend.name}"


def _route_configuration(listener: Listener) -> dict[str, Any]:
    # Envoy takes the first route that matches: the most specific one comes first.
    routes = sorted(listener.routes, key=lambda route: -len(route.prefix))
    return {
        "name": listener.name,
        "virtual_hosts": [
            {
                "name": "all",
                "domains": ["*"],
                "routes": [
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
        "route": {
            "weighted_clusters": {
                "clusters": [
                    {"name": _cluster_name(listener, backend), "weight": backend.weight}
                    for backend in sorted(route.backends, key=lambda backend: backend.name)
                ]
            },
            "timeout": "0s",
            "retry_policy": _retry_policy(route),
        },
    }


def _retry_policy(route: Route) -> dict[str, Any]:
    """Return when a request is tried again: nothing of an answer was seen, and there is somewhere to try."""
    conditions = ["connect-failure", "refused-stream", "reset"]
    elsewhere = len(route.backends) > 1 or len(route.backends[0].hosts) > 1
    return {
        # 503 is also what the next gateway says of a replica that is gone.
        "retry_on": ",".join([*conditions, "retriable-status-codes"] if elsewhere else conditions),
        "retriable_status_codes": [503] if elsewhere else [],
        "num_retries": _RETRIES,
        "refresh_cluster_on_retry": len(route.backends) > 1,
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {
                    "@type": f"{_TYPES}extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
                },
            }
        ],
        "host_selection_retry_max_attempts": 5,
    }


def _listener(listener: Listener) -> dict[str, Any]:
    return {
        "name": listener.name,
        "address": {"socket_address": {"address": listener.address, "port_value": listener.port}},
        # With it, a second Envoy could take a share of this port's requests unnoticed.
        "enable_reuse_port": False,
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": _connection_manager(listener),
                    }
                ]
            }
        ],
    }


def _connection_manager(listener: Listener) -> dict[str, Any]:
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {
            "@type": f"{rewrite.FILTERS}router.v3.Router",
            "suppress_envoy_headers": True,
            "upstream_http_filters": rewrite.below_router(),
        },
    }
    return {
        "@type": f"{_TYPES}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": listener.name,
        "codec_type": "AUTO",
        "rds": {
            "route_config_name": listener.name,
            "config_source": {
                "resource_api_version": "V3",
                "path_config_source": {"path": f"./{routes_file(listener.name)}"},
            },
        },
        "http_filters": [*rewrite.before_router(), router],
        "local_reply_config": replies.own_errors(),
        "server_name": "modelplane",
        "use_remote_address": True,
        # Without it, /a/service/../../b/other would be routed as one service and sent as another's path.
        "normalize_path": True,
        "preserve_external_request_id": True,
        "always_set_request_id_in_response": True,
        "stream_idle_timeout": _STREAM_IDLE,
        "request_headers_timeout": _HEADERS_TIMEOUT,
        "upgrade_configs": [{"upgrade_type": "websocket"}],
    }


def _response(type_url: str, resources: Iterable[dict[str, Any]]) -> str:
    return _dump({"resources": [{"@type": type_url, **resource} for resource in resources]})


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n"
