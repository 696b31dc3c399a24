"""A listener with its connection manager: an Envoy ``Listener``.

It names the file of its routes, and so does not change when they do.
"""

from typing import Any

from modelplane.gateway.envoy import (
    access_log,
    certificate_files,
    endpoint_pickers,
    module_filters,
    rate_limit_filter,
    replies,
    rewrite,
    token_filters,
    upstream_addresses,
)
from modelplane.gateway.envoy.clusters import BUFFER_BYTES
from modelplane.gateway.envoy.envoy_names import ENVOY, HTTP_FILTERS
from modelplane.gateway.envoy.envoy_routes import name_routes, name_routes_file
from modelplane.gateway.route_table import Listener

MOST_STREAMS = 4
"""Maximum of concurrent requests on a connection of HTTP/2; each may need a connection to a backend."""

_HTTP = {
    # Longer than load balancers keep an unused connection, so that they are the ones to close it.
    "idle_timeout": "300s",
    # Longer than any answer takes. A limit on silence would be a timer for each piece of a stream.
    "max_stream_duration": "14400s",
    # Servers of WSGI and CGI read modelplane_client as modelplane-client, which only the gateway sets.
    "headers_with_underscores_action": "DROP_HEADER",
}


def build_listener(listener: Listener, *, with_module: bool, is_former: bool = False) -> dict[str, Any]:
    """Return the ``Listener`` of a listener of the table, for an Envoy with or without the module.

    ``is_former`` says that it is for the module of release 0.9.
    """
    http = {
        "filters": [
            {
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": _connection_manager(listener, with_module=with_module, is_former=is_former),
            }
        ]
    }
    return {
        "name": listener.name,
        "address": {"socket_address": {"address": listener.address, "port_value": listener.port}},
        # If enabled, a second Envoy could take a share of this port's requests unnoticed.
        "enable_reuse_port": False,
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "filter_chains": [certificate_files.add_tls(http, listener.tls)],
    }


def _connection_manager(listener: Listener, *, with_module: bool, is_former: bool) -> dict[str, Any]:
    return {
        "@type": f"{ENVOY}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": listener.name,
        "codec_type": "AUTO",
        "rds": {
            "route_config_name": name_routes(listener),
            "config_source": {
                "resource_api_version": "V3",
                "path_config_source": {"path": f"./{name_routes_file(name_routes(listener))}"},
            },
        },
        "http_filters": [
            *access_log.build_path_filter(listener, with_module=with_module),
            *_before_router(listener, with_module=with_module, is_former=is_former),
            _router(listener, with_module=with_module, is_former=is_former),
        ],
        "access_log": access_log.build_access_log(listener, with_module=with_module),
        "local_reply_config": replies.build_own_errors(listener),
        "server_name": "modelplane",
        "use_remote_address": True,
        "xff_num_trusted_hops": listener.front.trusted_hops if listener.front else 0,
        # A path is refused rather than rewritten: what is in front of the gateway has read it as it is.
        "normalize_path": False,
        "common_http_protocol_options": _HTTP,
        "http2_protocol_options": {
            "max_concurrent_streams": MOST_STREAMS,
            "initial_stream_window_size": BUFFER_BYTES,
            "initial_connection_window_size": MOST_STREAMS * BUFFER_BYTES,
        },
        "preserve_external_request_id": True,
        "always_set_request_id_in_response": True,
        "stream_idle_timeout": "0s",
        # For a client that no longer reads an answer that is complete.
        "stream_flush_timeout": "3600s",
        "request_headers_timeout": "30s",
        # The module has the limit without a timer for each request.
        **(
            {}
            if with_module and listener.front and not is_former
            else {"request_timeout": f"{module_filters.REQUEST_TIMEOUT_S}s"}
        ),
        "upgrade_configs": [{"upgrade_type": "websocket"}],
    }


def _before_router(listener: Listener, *, with_module: bool, is_former: bool) -> list[dict[str, Any]]:
    if with_module and listener.front:
        front = module_filters.build_front(listener, is_former=is_former)
        return [front, *rate_limit_filter.build_filters(listener)]
    internal = rewrite.drop_internal_headers(of_clients=listener.front is not None)
    before = [internal, *endpoint_pickers.build_filters(listener)]
    return before if with_module else [*before, rewrite.save_path()]


def _router(listener: Listener, *, with_module: bool, is_former: bool) -> dict[str, Any]:
    below = (
        [module_filters.build_backend(listener, is_former=is_former)]
        if with_module
        else rewrite.build_below_router()
    )
    return {
        "name": "envoy.filters.http.router",
        "typed_config": {
            "@type": f"{HTTP_FILTERS}router.v3.Router",
            "suppress_envoy_headers": True,
            # The module counts answers for a twentieth of what these statistics take.
            "dynamic_stats": listener.front is not None and not with_module,
            "upstream_http_filters": [
                *token_filters.build_below_router(listener, has_new_module=with_module and not is_former),
                *upstream_addresses.build_below_router(listener),
                *below,
                {
                    "name": "envoy.filters.http.upstream_codec",
                    "typed_config": {"@type": f"{HTTP_FILTERS}upstream_codec.v3.UpstreamCodec"},
                },
            ],
        },
    }
