"""Envoy's files of a table: listeners, routes, clusters.

One rule: a change reaches as few files as it can. A listener does not mention
its routes, so it is written once, and the connections that it accepted stay.
The number of files does not grow with the number of backends, because Envoy
spends an inotify instance on each. All paths are relative to Envoy's working
directory. Configuration reference: envoy v1.40, ``api-v3``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from modelplane.gateway.envoy import (
    certificate_files,
    clusters,
    envoy_routes,
    listeners as envoy_listeners,
    module_filters,
    rate_limit_filter,
)
from modelplane.gateway.envoy.envoy_names import (
    CLUSTERS,
    CONFIG,
    LISTENERS,
    ROUTES,
    WITH_MODULE,
    WITH_NEW_MODULE,
)
from modelplane.gateway.envoy.envoy_routes import list_former_names, name_routes_file
from modelplane.gateway.envoy.upstream_addresses import build_policy, name_destinations_file
from modelplane.gateway.route_table import Backend, Listener, Table, shared


def render_files(table: Table) -> dict[str, str]:
    """Return the content of every file, by its path from Envoy's working directory.

    Raises ValueError if two different backends of one listener have the same name.
    """
    backends = dict(sorted(_backends(table)))
    listeners = sorted(table.listeners, key=lambda listener: listener.name)
    services = [service for service in map(rate_limit_filter.find_service, listeners) if service is not None]
    pickers = {
        (listener.name, backend.picker)
        for listener in listeners
        for route in listener.routes
        for backend in route.backends
        if backend.picker is not None
    }
    configurations = [
        *(envoy_routes.route_configuration(listener) for listener in listeners),
        *(
            envoy_routes.build_without_routes(listener, name)
            for listener in listeners
            for name in list_former_names(listener)
        ),
    ]
    routes = {
        name_routes_file(configuration["name"]): _response(
            f"{CONFIG}route.v3.RouteConfiguration", [configuration]
        )
        for configuration in configurations
    }
    return {
        **{
            name_destinations_file(listener.name): _response(
                f"{CONFIG}core.v3.TypedExtensionConfig", [build_policy(listener, listener.destinations)]
            )
            for listener in listeners
            if listener.destinations is not None
        },
        **{
            path: _dump({"resources": [secret]})
            for path, secret in (
                *certificate_files.build_listener_secrets(table.listeners),
                *certificate_files.build_identity_secrets(table.identity),
            )
        },
        CLUSTERS: _response(
            f"{CONFIG}cluster.v3.Cluster",
            [
                *(
                    clusters.build_cluster(name, backend, has_identity=table.identity is not None)
                    for name, backend in backends.items()
                ),
                *(clusters.build_rate_limit_service(service) for service in services[:1]),
                *(clusters.build_endpoint_picker(*picker) for picker in sorted(pickers)),
            ],
        ),
        **routes,
        **{
            path: content
            for listener in listeners
            for path, content in module_filters.render_files(listener).items()
        },
        LISTENERS: _listeners(
            (listener for listener in listeners if not module_filters.is_required(listener)),
            with_module=False,
        ),
        WITH_MODULE: _listeners(listeners, with_module=True, is_former=True),
        WITH_NEW_MODULE: _listeners(listeners, with_module=True),
    }


def select_listeners(files: Mapping[str, str], *, has_new_module: bool) -> dict[str, str]:
    """Return the files of one Envoy, with the listeners for the module that it has."""
    selected = {path: content for path, content in files.items() if path != WITH_NEW_MODULE}
    # Controllers of release 0.9 write no others.
    if has_new_module and WITH_NEW_MODULE in files:
        selected[WITH_MODULE] = files[WITH_NEW_MODULE]
    return selected


def plan_transition(new: Mapping[str, str], old: Mapping[str, str]) -> dict[str, str]:
    """Return the files to replace ``old`` by on the way to ``new``.

    A route may only name clusters that exist, and Envoy may read the clusters first: one that the old
    routes name stays until those routes are gone. Without any, the result is ``new``.
    """
    try:
        leaving = _leaving(new, old)
    except (KeyError, TypeError, msgspec.DecodeError):
        return dict(new)  # the old files are damaged: nothing runs on them
    if not leaving:
        return dict(new)
    clusters_ = msgspec.json.decode(new[CLUSTERS])
    clusters_["resources"] += leaving
    return {**new, CLUSTERS: _dump(clusters_)}


def _leaving(new: Mapping[str, str], old: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the clusters of the old files that the old routes name and the new files lack."""
    if new[CLUSTERS] == old[CLUSTERS]:
        return []
    former = msgspec.json.decode(old[CLUSTERS])["resources"]
    gone = {path["name"] for path in former} - {
        resource["name"] for resource in msgspec.json.decode(new[CLUSTERS])["resources"]
    }
    if not gone:
        return []
    named = {
        name
        for path, content in old.items()
        if path.startswith(ROUTES)
        for configuration in msgspec.json.decode(content)["resources"]
        for host in configuration["virtual_hosts"]
        for route in host["routes"]
        for name in envoy_routes.list_clusters(route)
    }
    return [path for path in former if path["name"] in gone & named]


def _listeners(listeners: Iterable[Listener], *, with_module: bool, is_former: bool = False) -> str:
    return _response(
        f"{CONFIG}listener.v3.Listener",
        [
            envoy_listeners.build_listener(listener, with_module=with_module, is_former=is_former)
            for listener in listeners
        ],
    )


def _backends(table: Table) -> Iterator[tuple[str, Backend]]:
    seen: dict[str, tuple[Any, ...]] = {}
    for listener in table.listeners:
        yield from envoy_routes.list_held_clusters(listener)
        for backend in (candidate for route in listener.routes for candidate in route.backends):
            name = clusters.name_cluster(listener, backend)
            if name not in seen:
                seen[name] = shared(backend)
                yield name, backend
            elif seen[name] != shared(backend):
                raise ValueError(
                    f'two different backends of listener "{listener.name}" are named "{backend.name}"'
                )


def _response(type_url: str, resources: Iterable[dict[str, Any]]) -> str:
    return _dump({"resources": [{"@type": type_url, **resource} for resource in resources]})


def _dump(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value, order="sorted").decode() + "\n"
