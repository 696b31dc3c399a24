"""Rewriting of a request's path and Host for its backend, and the mark of each gateway that it passes.

The backends of one route need different prefixes, and a request that fails at one of them is retried at
another. Envoy rewrites a path once, before the first attempt. The filters here rewrite it for each attempt,
below the router, and always from the path that the client sent. See
``docs/decisions/0008-envoy-by-files.md``.

Each gateway adds a mark to a header of its own, which ends a request that runs in a circle. The header is
also sent to backends, because a backend may be another region's gateway. A client that sends the header
itself is only refused earlier.
"""

from collections.abc import Mapping
from typing import Any

from modelplane.gateway.envoy import access_log, replies
from modelplane.gateway.envoy.envoy_names import HTTP_FILTERS
from modelplane.gateway.route_table import Backend, Route

MOST_HOPS = 4
"""Maximum of gateways that forward a request: those of two regions and of a cluster, and one to spare."""

_HOPS = "modelplane-hops"
_MARK = "1"
_STATE = "modelplane.loop"
"""Filter state that the module sets on a request with too many marks."""

KEY = "modelplane.rewrite"
"""Name of the rewriting filter, and of the metadata that it reads."""

CLIENT = "modelplane-client"
"""Header with the id of the client's key, which only the gateway sets."""

_PATH = "modelplane.path"
_HEADER = "x-modelplane-"
_PER_BACKEND = ("prefix", "overlap", "host")
_OF_MODULE = ("model", "credential")
_LINES = ("prefix", "overlap", "host", "model", "served", "credential")
_SCRIPT = f"""
local function take(headers, key)
  local value = headers:get("{_HEADER}" .. key)
  headers:remove("{_HEADER}" .. key)
  return value or ""
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local prefix, overlap, host = take(headers, "prefix"), take(headers, "overlap"), take(headers, "host")
  if take(headers, "model") .. take(headers, "credential") ~= "" then
    handle:respond({{[":status"] = "503"}}, "")
    return
  end
  if host ~= "" then headers:replace(":authority", host) end
  local path = handle:streamInfo():filterState():get("{_PATH}")
  if prefix ~= "" then
    local rest = path:sub(#handle:metadata():get("strip") + 1):gsub("^/", "", 1)
    if overlap ~= "" and rest:sub(1, #overlap) == overlap and (rest .. "/"):find("^[/?]", #overlap + 1) then
      rest = rest:sub(#overlap + 1):gsub("^/", "", 1)
    end
    path = prefix .. rest
  end
  headers:replace(":path", path)
end
"""


def build_route_metadata(route: Route) -> dict[str, Any]:
    """Return the metadata of an Envoy route: the prefix to remove from the path."""
    return {"filter_metadata": {KEY: {"strip": route.prefix.rstrip("/")}}}


def build_backend_metadata(backend: Backend) -> dict[str, Any]:
    """Return the metadata of an Envoy cluster: how attempts are rewritten, and the name in the log."""
    credential = backend.credential.name if backend.credential else ""
    given = {key: getattr(backend, key) for key in _PER_BACKEND}
    given |= {"model": backend.model, "served": backend.served, "credential": credential}
    without_module = {key: value for key, value in given.items() if key in _PER_BACKEND or value}
    without_module |= {"region": backend.region} if backend.region else {}
    return {
        "filter_metadata": {KEY: without_module | describe_attempt(given)}
        | access_log.build_backend_metadata(backend)
    }


def describe_attempt(wanted: Mapping[str, str]) -> dict[str, str]:
    """Return what the module reads of a cluster: lines of one text, because Envoy searches for each key.

    It refuses all attempts at a cluster with a line too many.
    """
    return {"attempt": "\n".join(wanted.get(key, "") for key in _LINES)}


def drop_internal_headers(*, of_clients: bool) -> dict[str, Any]:
    """Return the filter that drops internal headers, and counts the hop."""
    # A client's x-envoy headers would change timeouts and retries.
    prefixes = ("x-envoy-", _HEADER, *([CLIENT] if of_clients else []))
    # In front of the marks of the gateways before.
    mark = {
        "append": {
            "header": {"key": _HOPS, "value": f"{_MARK}%REQ({_HOPS})%"},
            "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
        }
    }
    dropped = [{"remove_on_match": {"key_matcher": {"prefix": prefix}}} for prefix in prefixes]
    return {
        "name": "modelplane.internal_headers",
        "typed_config": {
            "@type": f"{HTTP_FILTERS}header_mutation.v3.HeaderMutation",
            "mutations": {"request_mutations": [*dropped, mark]},
        },
    }


def save_path() -> dict[str, Any]:
    """Return the filter that saves the path for each attempt; it is the last one before the router."""
    remembered = {
        "object_key": _PATH,
        "factory_key": "envoy.string",
        "format_string": {"text_format_source": {"inline_string": "%REQ(:path)%"}},
    }
    return {
        "name": _PATH,
        "typed_config": {
            "@type": f"{HTTP_FILTERS}set_filter_state.v3.Config",
            "on_request_headers": [remembered],
        },
    }


def build_below_router() -> list[dict[str, Any]]:
    """Return the filters of each attempt, after its backend has been chosen, where Envoy has no module.

    An attempt that needs the module is refused.
    """
    handed_over = [
        {
            "append": {
                "header": {"key": f"{_HEADER}{key}", "value": f"%CLUSTER_METADATA({KEY}:{key})%"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        }
        for key in (*_PER_BACKEND, *_OF_MODULE)
    ]
    return [
        {
            "name": "modelplane.backend",
            "typed_config": {
                "@type": f"{HTTP_FILTERS}header_mutation.v3.HeaderMutation",
                "mutations": {"request_mutations": handed_over},
            },
        },
        {
            "name": KEY,
            "typed_config": {
                "@type": f"{HTTP_FILTERS}lua.v3.Lua",
                "default_source_code": {"inline_string": _SCRIPT},
            },
        },
    ]


def refuse_loops(*, by_module: bool) -> dict[str, Any]:
    """Return the Envoy route that refuses a request with too many marks; it comes before those of services.

    ``by_module`` says that the listener never runs without the module, which reads the header anyway: a route
    that searches for a header takes Envoy 3,000 instructions more than one that looks for a filter state.
    """
    header = {"name": _HOPS, "string_match": {"prefix": _MARK * MOST_HOPS}}
    state = {"key": _STATE, "string_match": {"exact": "1"}}
    matched = {"filter_state": [state]} if by_module else {"headers": [header]}
    return {"name": "loop", "match": {"prefix": "/", **matched}, **replies.build_loop(MOST_HOPS)}
