"""Endpoint pickers: the choice of an instance for each request by a server beside the backend.

Protocol: Gateway API Inference Extension, "Endpoint Picker Protocol". Envoy sends the request's headers and
body to the picker by external processing, and the picker answers with an address in a header. The address
counts only if it is one of the backend's own instances, because Envoy looks it up among them: a picker
cannot send a request to a pod of another tenant.

Responses do not pass through the picker, so that its end cuts off none of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.gateway.envoy.envoy_names import ENVOY, HTTP_FILTERS
from modelplane.gateway.route_table import EndpointPicker, Listener

DESTINATION = "x-gateway-destination-endpoint"
"""Header with the addresses that a picker chose, in order: ``IP:PORT`` with commas between."""

TIMEOUT = "10s"
"""Time for an answer of the picker."""

_FILTER = "envoy.filters.http.ext_proc"
_TYPE = f"{HTTP_FILTERS}ext_proc.v3"
_POLICIES = "envoy.load_balancing_policies"
_OF_PICKERS = (DESTINATION, "x-prefiller-", "x-encoder-", "x-data-parallel-")
"""Prefixes of the headers that only a picker sets: the routing sidecar connects to the addresses in them."""


def name_cluster(listener: str, picker: EndpointPicker) -> str:
    """Return the name of the cluster of a picker's own instances."""
    return f"{listener}/{picker.name}"


def build_filters(listener: Listener) -> list[dict[str, Any]]:
    """Return the filters of a cluster's gateway for pickers; none for the gateway of a fleet.

    A route with a picker enables the second one. The listener has it from the start, because it would close
    its connections to get it later.
    """
    if listener.front is not None:
        return []
    dropped = [{"remove_on_match": {"key_matcher": {"prefix": prefix}}} for prefix in _OF_PICKERS]
    return [
        {
            "name": "modelplane.headers_of_pickers",
            "typed_config": {
                "@type": f"{HTTP_FILTERS}header_mutation.v3.HeaderMutation",
                "mutations": {"request_mutations": dropped},
            },
        },
        {
            "name": _FILTER,
            "disabled": True,
            "typed_config": {
                "@type": f"{_TYPE}.ExternalProcessor",
                # Each route names its own.
                "grpc_service": _grpc_service("none"),
                "message_timeout": TIMEOUT,
                "status_on_error": {"code": "ServiceUnavailable"},
                "route_cache_action": "RETAIN",
                "processing_mode": {
                    "request_header_mode": "SEND",
                    "request_body_mode": "FULL_DUPLEX_STREAMED",
                    "request_trailer_mode": "SEND",
                    "response_header_mode": "SKIP",
                    "response_body_mode": "NONE",
                    "response_trailer_mode": "SKIP",
                },
            },
        },
    ]


def build_route_part(listener: str, picker: EndpointPicker) -> dict[str, Any]:
    """Return the part of an Envoy route that has a picker asked."""
    overrides = {
        "grpc_service": _grpc_service(name_cluster(listener, picker)),
        "failure_mode_allow": picker.fails_open,
    }
    return {
        "typed_per_filter_config": {_FILTER: {"@type": f"{_TYPE}.ExtProcPerRoute", "overrides": overrides}}
    }


def list_clusters(route: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of the picker's cluster that an Envoy route names."""
    configuration = route.get("typed_per_filter_config", {}).get(_FILTER)
    if configuration:
        yield configuration["overrides"]["grpc_service"]["envoy_grpc"]["cluster_name"]


def build_balancing(picker: EndpointPicker | None) -> dict[str, Any]:
    """Return the part of a ``Cluster`` that chooses the instance of a request.

    Where the picker names none of the cluster's instances, the choice is any of them, or no one if the
    picker must be heard.
    """
    if picker is None:
        return {"lb_policy": "LEAST_REQUEST"}
    any_one = _policy("least_request", "LeastRequest")
    no_one = _policy(
        "subset", "Subset", fallback_policy="NO_FALLBACK", subset_lb_policy={"policies": [any_one]}
    )
    fallback = {"policies": [any_one if picker.fails_open else no_one]}
    sources = [{"header": DESTINATION}]
    chosen = _policy("override_host", "OverrideHost", override_host_sources=sources, fallback_policy=fallback)
    return {"load_balancing_policy": {"policies": [chosen]}}


def _policy(name: str, type_: str, **fields: Any) -> dict[str, Any]:
    url = f"{ENVOY}extensions.load_balancing_policies.{name}.v3.{type_}"
    return {
        "typed_extension_config": {"name": f"{_POLICIES}.{name}", "typed_config": {"@type": url, **fields}}
    }


def _grpc_service(cluster: str) -> dict[str, Any]:
    return {"envoy_grpc": {"cluster_name": cluster}}
