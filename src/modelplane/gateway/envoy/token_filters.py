"""Tokens of replicas: sent by the fleet's gateway, checked and removed by the gateways of clusters.

The tokens are in the clusters' metadata, and a filter below the router puts them into each attempt. A header
of this name from elsewhere is removed before.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.gateway.envoy import retries
from modelplane.gateway.envoy.envoy_names import HTTP_FILTERS
from modelplane.gateway.route_table import Backend, Listener, Route
from modelplane.gateway.tokens import HEADERS

TOKENS = "modelplane.tokens"
"""Name of the metadata that the filter reads, and of the filter where each route needs it."""

HEADERS_OF_ATTEMPTS = "modelplane.headers_of_attempts"
"""Name of the filter where the module of this release drops such headers of clients."""


def build_below_router(listener: Listener, *, has_new_module: bool) -> list[dict[str, Any]]:
    """Return the filter of each attempt; none for the gateway of a cluster."""
    if listener.front is None:
        return []
    mutations: list[dict[str, Any]] = [{"remove": header} for header in HEADERS]
    for header in HEADERS:
        value = f"%CLUSTER_METADATA({TOKENS}:{header})%"
        sent = {"header": {"key": header, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
        mutations.append({"append": sent})
    number = {"key": retries.ATTEMPT, "value": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"}
    mutations.append({"append": {"header": number, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}})
    return [
        {
            "name": HEADERS_OF_ATTEMPTS if has_new_module else TOKENS,
            "typed_config": {
                "@type": f"{HTTP_FILTERS}header_mutation.v3.HeaderMutation",
                "mutations": {"request_mutations": mutations},
            },
        }
    ]


def build_backend_metadata(backend: Backend) -> dict[str, Mapping[str, str]]:
    """Return the part of an Envoy cluster's metadata with the tokens."""
    return {TOKENS: {token.header: token.value for token in backend.tokens}} if backend.tokens else {}


def is_not_of_replica() -> dict[str, Any]:
    """Return the condition of attempts at a backend without tokens, as a parsed expression of CEL.

    The address is checked before any filter changes the attempt, so headers do not tell.
    """
    metadata: dict[str, Any] = {"ident_expr": {"name": "xds"}}
    for field in ("cluster_metadata", "filter_metadata"):
        metadata = {"select_expr": {"operand": metadata, "field": field}}
    return _call("!_", _call("@in", {"const_expr": {"string_value": TOKENS}}, metadata))


def _call(function: str, *arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"call_expr": {"function": function, "args": list(arguments)}}


def require_token(route: Route) -> dict[str, Any]:
    """Return the part of the match of an Envoy route by which requests need the token."""
    if route.token is None:
        return {}
    return {"headers": [{"name": route.token.header, "string_match": {"exact": route.token.value}}]}


def remove_token(listener: Listener) -> dict[str, Any]:
    """Return the part of an Envoy route of a cluster's gateway by which no engine gets a token."""
    return {"request_headers_to_remove": list(HEADERS)} if listener.front is None else {}
